"""Browsers that somebody logged in with before: guesses of others, behind the same address too, do
not slow them down.

https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies
"""

import secrets

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse, parse_cookie

COOKIE = "fleetwatch_device"
MAX_AGE_S = 90 * 86_400


def device_of(request: HttpRequest, name: str) -> str | None:
    """The browser's own id, where `name` logged in with it in the last 90 days; else None."""
    owner, device = _signed(request.COOKIES.get(COOKIE, ""))
    return device if owner == name else None


def name_of(cookies: str) -> str | None:
    """Who logged in last, by the Cookie header of their browser; None where that was nobody in the
    last 90 days.
    """
    return _signed(parse_cookie(cookies).get(COOKIE, ""))[0] if COOKIE in cookies else None


def _signed(value: str) -> tuple[str, str] | tuple[None, None]:
    """Name and id in the cookie, where we signed it."""
    try:
        # by today's key alone: an older one may have become known, and each forged id would have
        # tries of its own
        name, device = signing.loads(value, salt=COOKIE, max_age=MAX_AGE_S, fallback_keys=[])
    except (signing.BadSignature, TypeError, ValueError):
        return None, None
    return str(name), str(device)


def remember(response: HttpResponse, name: str) -> None:
    """Lets the browser show from now on that `name` logged in with it.

    It opens nothing: a password is still needed.
    """
    value = signing.dumps([name, secrets.token_hex(8)], salt=COOKIE)
    secure = settings.SESSION_COOKIE_SECURE
    response.set_cookie(
        COOKIE, value, max_age=MAX_AGE_S, secure=secure, httponly=True, samesite="Lax"
    )

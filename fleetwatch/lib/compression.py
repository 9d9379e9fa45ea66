"""Answers, compressed where that can tell nobody a secret.

BREACH guesses a secret by the length of many compressed answers in which it stands beside what the
attacker put into the address. So a body is compressed only where no secret of its own stays the
same from answer to answer:

- The CSRF token is masked anew in each answer (Django), and each body is made longer by up to 100
  random bytes (Django's GZipMiddleware).
- A token, a link or a password that is shown once is shown in the answer to a POST: those are not
  compressed. Nor is anything under /accounts/, where the key of an authenticator app, recovery
  codes and an invitation's secret are shown for as long as the page is open.
- Cookies are SameSite=Lax: another site can make a browser ask with them only by going there.
"""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

READING = ("GET", "HEAD")
WITH_SECRETS = "/accounts/"
OF_TEXT = ("text/", "application/json", "application/javascript", "image/svg+xml")


class Compression(GZipMiddleware):
    """Django's GZipMiddleware for the answers that may be compressed, and are worth it."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """The answer, compressed where the reader takes it so."""
        if not may_be_compressed(request, response):
            return response
        return super().process_response(request, response)


def may_be_compressed(request: HttpRequest, response: HttpResponseBase) -> bool:
    """Whether no secret can stand in it, and it is text that lies in memory: files that are sent
    in pieces are compressed already, or once for all (whitenoise).
    """
    return (
        request.method in READING
        and not request.path_info.startswith(WITH_SECRETS)
        and not response.streaming
        and response.headers.get("Content-Type", "").startswith(OF_TEXT)
    )

"""Settings, page by page: everybody reads them; who changes one, says its right."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from fleetwatch.accounts.permissions import check
from fleetwatch.costs.difference import LOOKS_BACK_DAYS
from fleetwatch.costs.rates.rate_effects import effect_of, effect_of_rate
from fleetwatch.dashboard import settings_pages
from fleetwatch.dashboard.forms import changes, prices
from fleetwatch.dashboard.forms.asked import Asked, Done, read_form
from fleetwatch.dashboard.install import install_command
from fleetwatch.dashboard.parameters import View, takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.settings_pages import PAGES, SettingsPage, page_of
from fleetwatch.dashboard.showing import Context, existing, page
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.transports.base import ConfigError
from fleetwatch.reports.new_versions import changed_months

# forms that stand on the page several times: by which field of what was sent they are told apart
REPEATED = {
    "channel": "kind",
    "channel-edit": "id",
    "commitment-end": "id",
    "agent-token-rights": "id",
}
# forms whose effect in dollars is shown before anything is done, where `do` asks for that
HAVE_EFFECT = ("rate", "rate-withdraw", "exchange", "exchange-withdraw")


@require_GET
@login_required
@never_cache
@takes("edit")
def settings(request: HttpRequest) -> HttpResponse:
    """What there is to set. All of it stood on this page once: an address that opened the form of a
    channel leads to where that is.
    """
    if "edit" in request.GET:
        return redirect(f"{reverse('settings_channels')}?{request.GET.urlencode()}")
    return page(request, read_period(request), "dashboard/settings.html", "settings", {})


def _view_of(shown: SettingsPage) -> View:
    @require_GET
    @login_required
    @never_cache
    @takes(*shown.parameters)
    def view(request: HttpRequest) -> HttpResponse:
        return _page(request, shown)

    return view


VIEWS = {name: _view_of(shown) for name, shown in PAGES.items()}


@require_http_methods(["GET", "POST"])
@login_required
@never_cache
def change(request: HttpRequest, action: str) -> HttpResponse:
    """One change. A made secret is in this answer and nowhere else; anything else redirects. Who
    comes to the address of a form is led to its page.
    """
    make = existing(changes.CHANGES.get(action))
    shown = page_of(action)
    if request.method == "GET":
        return redirect(_address(shown))
    check(request.user, shown.right)
    asked = read_form(request)
    try:
        if asked.text("do") == "look" and action in HAVE_EFFECT:
            return _looked_at(request, action, asked)
        done = make(asked)
    except (ConfigError, RefusedFieldError) as error:
        return _refused(request, action, _errors(action, error))
    if done.secret:
        return _made(request, action, done)
    messages.success(request, done.text)
    return redirect(_address(shown))


def _address(shown: SettingsPage) -> str:
    return reverse(f"settings_{shown.name}")


def _looked_at(request: HttpRequest, action: str, asked: Asked) -> HttpResponse:
    """The page with what the change would do in dollars, and the form as it was sent."""
    make = changes.CHANGES[action]
    rate = prices.read_rate(asked) if action == "rate" else None
    effect = effect_of_rate(rate, asked.now) if rate else effect_of(lambda: make(asked), asked.now)
    kept = [(name, value) for name, value in asked.post.items() if name not in prices.NOT_KEPT]
    outcome = {
        "action": action,
        "sent": request.POST,
        "effect": effect,
        "changed_months": changed_months(lambda: make(asked)),
        "wanted": prices.in_words(rate) if rate else "",
        "days": LOOKS_BACK_DAYS,
        "kept": kept,
    }
    return _page(request, page_of(action), outcome)


def _made(request: HttpRequest, action: str, done: Done) -> HttpResponse:
    """The page with the secret that was made."""
    is_agents = done.secret_kind in ("agent", "enrollment")
    command = install_command(done.secret) if is_agents else ""
    outcome = {"action": action, "done": done, "install_command": command}
    return _page(request, page_of(action), outcome)


def _errors(action: str, error: ConfigError | RefusedFieldError) -> dict[str, str]:
    """What is wrong, by the form's own fields."""
    if isinstance(error, ConfigError):
        return error.errors
    names = prices.RATE_FIELDS if action == "rate" else prices.FIELDS
    return {names.get(error.field, error.field): str(error)}


def _refused(request: HttpRequest, action: str, errors: dict[str, str]) -> HttpResponse:
    """The page with the form as it was sent, and what is wrong with it."""
    sent = request.POST
    form = f"{action}-{sent.get(REPEATED[action], '')}" if action in REPEATED else action
    return _page(request, page_of(action), {"action": form, "errors": errors, "sent": sent})


def _page(
    request: HttpRequest, shown: SettingsPage, outcome: Context | None = None
) -> HttpResponse:
    """A page of settings, and what came of the form that was sent."""
    period = read_period(request)
    context = {
        **settings_pages.shared(period.now),
        **shown.content(request, period.now),
        **(outcome or {}),
    }
    return page(request, period, shown.template, shown.rail, context)

"""The page that an invitation's link leads to: it makes the account, and logs in."""

from collections.abc import Mapping
from types import MappingProxyType

from allauth.account.utils import perform_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts import people
from fleetwatch.accounts.models import Invitation
from fleetwatch.lib.refusal import RefusedFieldError

NO_ERRORS: Mapping[str, str] = MappingProxyType({})


@require_http_methods(["GET", "POST"])
@never_cache
@sensitive_post_parameters("password")
def accept(request: HttpRequest, secret: str) -> HttpResponse:
    """404 for a link that is no invitation any more; a look at it uses nothing up."""
    now = timezone.now()
    invitation = people.open_invitation(secret, now)
    if invitation is None:
        return render(request, "account/invitation_over.html", status=404)
    if request.method == "GET":
        return _form(request, invitation)
    try:
        user = people.accept(
            secret,
            username=request.POST.get("username", ""),
            password=request.POST.get("password", ""),
            now=now,
        )
    except RefusedFieldError as error:
        return _form(request, invitation, {error.field: str(error)})
    response: HttpResponse = perform_login(request, user)
    return response


def _form(
    request: HttpRequest, invitation: Invitation, errors: Mapping[str, str] = NO_ERRORS
) -> HttpResponse:
    shown = {"invitation": invitation, "errors": errors, "sent": request.POST}
    return render(request, "account/invitation.html", shown, status=422 if errors else 200)

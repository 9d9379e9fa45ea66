"""The door that needs no session: the link by which who was warned keeps the job."""

from dataclasses import replace

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts.models import User
from fleetwatch.actions import keeping
from fleetwatch.actions.models import Action
from fleetwatch.alerts.incidents.open_names import name_of
from fleetwatch.lib.actor import PAGE, acting, actor
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.message import one_line


@csrf_exempt
@require_http_methods(["GET", "POST"])
def keep_job(request: HttpRequest, token: str) -> HttpResponse:
    """The link's page; its button keeps the job. A GET changes nothing: scanners follow links."""
    link = keeping.read_keep_token(token)
    if link is None:
        raise Http404
    action, user = link
    error = _kept(request, action, user) if request.method == "POST" else ""
    action.refresh_from_db()
    is_kept = action.state == Action.State.KEPT
    shown = {
        "job": one_line(action.subject, 100),
        "gpus": action.gpus,
        "usd_per_hour": action.usd_per_hour,
        "user_name": name_of(user),
        "is_kept": is_kept,
        "is_over": action.state not in keeping.KEEPABLE and not is_kept,
        "result": action.result,
        "error": error,
    }
    return render(request, "actions/keep.html", shown)


def _kept(request: HttpRequest, action: Action, user: User) -> str:
    """What stood against it; "" where it is kept."""
    who = replace(actor(), name=user.get_username(), user_id=user.pk, via=PAGE)
    with acting(lambda: who):
        try:
            reason = request.POST.get("reason", "")
            keeping.keep(action.pk, by=user, reason=reason, now=timezone.now())
        except (RefusedFieldError, PermissionDenied) as refused:
            return str(refused)
    return ""

"""The NinjaAPI of /api/v1: who may read, and how an error is told."""

from http import HTTPStatus

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.security import django_auth

from fleetwatch.api.action_routes import router as actions
from fleetwatch.api.auth import Token
from fleetwatch.api.budget_routes import router as budgets
from fleetwatch.api.capacity_routes import router as capacity
from fleetwatch.api.description import DescribedAPI
from fleetwatch.api.explain_routes import router as explanations
from fleetwatch.api.finding_routes import router as findings
from fleetwatch.api.incident_routes import router as incidents
from fleetwatch.api.known_parameters import refuse_unknown
from fleetwatch.api.me_routes import router as me
from fleetwatch.api.preference_routes import router as preferences
from fleetwatch.api.report_routes import router as reports
from fleetwatch.api.request_period import RequestError
from fleetwatch.api.routes import router
from fleetwatch.api.routing_routes import router as routing
from fleetwatch.api.rule_routes import router as rules
from fleetwatch.api.silence_routes import router as silences
from fleetwatch.api.trial_routes import router as trials
from fleetwatch.lib.refusal import RefusedFieldError

DESCRIPTION = """\
What a GPU fleet did, what it cost and how much of it was wasted. `from` and `to` take ISO 8601 (UTC
where no zone is named), `now-7d` or milliseconds since the epoch; without them it is the last 24
hours, of findings 7 days, of one job its life. Figures are of exactly that time, as far as it is
over: `covered_from` and `covered_to` say so. Units are in the names. Money is a JSON number in
dollars, rounded to the micro-dollar; rows of one breakdown sum to their total. `null` means "not
known", never zero. `coverage` is observed ÷ capacity. A parameter that an operation does not name
is refused. Each error is `{"error", "field"}`, one of another method (405) too. What a demo
answers has the header `FleetWatch-Demo: 1`.

A token reads; with the scope `write` it decides about findings, acts on incidents, keeps jobs that
are about to be ended, and sets rules, silences, routes and your own preferences too. It has the
rights of its user, less where it has a role of its own. People create theirs on "My jobs"."""

api = DescribedAPI(
    title="FleetWatch",
    version="1",
    description=DESCRIPTION,
    docs_url=None,
    openapi_url=None,
    auth=[Token(), django_auth],
)
api.add_decorator(refuse_unknown, mode="view")
for each in (
    router,
    me,
    explanations,
    findings,
    trials,
    reports,
    budgets,
    capacity,
    incidents,
    rules,
    silences,
    routing,
    preferences,
    actions,
):
    api.add_router("", each)


def _answer(request: HttpRequest, message: str, field: str | None, status: int) -> HttpResponse:
    return api.create_response(request, {"error": message, "field": field}, status=status)


@api.exception_handler(RequestError)
@api.exception_handler(RefusedFieldError)
def _refused(request: HttpRequest, error: RequestError | RefusedFieldError) -> HttpResponse:
    status = error.status if isinstance(error, RequestError) else 422
    return _answer(request, str(error), error.field or None, status)


@api.exception_handler(PermissionDenied)
def _not_allowed(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
    return _answer(request, str(error), "Authorization", 403)


@api.exception_handler(ValidationError)
def _bad_parameter(request: HttpRequest, error: ValidationError) -> HttpResponse:
    first = error.errors[0]
    return _answer(request, str(first["msg"]), str(first["loc"][-1]), 422)


@api.exception_handler(AuthenticationError)
def _stranger(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    answer = _answer(request, "an API token or a session is needed", "Authorization", 401)
    answer["WWW-Authenticate"] = "Bearer"
    return answer


@api.exception_handler(HttpError)
def _refused_by_ninja(request: HttpRequest, error: HttpError) -> HttpResponse:
    """A body that is no JSON, and a change without a token or the session's form token."""
    if error.status_code == HTTPStatus.FORBIDDEN:
        return _answer(
            request,
            "an API token that may write is needed, or a session with its X-CSRFToken",
            "Authorization",
            403,
        )
    return _answer(request, str(error), None, error.status_code)

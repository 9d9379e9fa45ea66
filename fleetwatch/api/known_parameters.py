"""A parameter that an operation does not take is refused: a filter with a typing error would be
answered for everything.
"""

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

from django.http import HttpRequest
from ninja.operation import Operation

from fleetwatch.api.request_period import RequestError
from fleetwatch.lib.parameter_names import renamed, repeated, unknown

Run = Callable[..., Any]
LONGEST_NAME = 100  # of what is told back


def refuse_unknown(run: Run) -> Run:
    """A decorator of NinjaAPI for each operation's `run`: its view is asked only with parameters
    that it takes, of which another name of one means the same.
    """
    operation: Operation = getattr(run, "__self__")  # noqa: B009 - run is a bound method
    allowed = frozenset(names(operation))
    view = operation.view_func

    @wraps(view)
    def asked(request: HttpRequest, **values: Any) -> Any:
        wrong = refusal(request, allowed)
        if wrong is not None:
            raise wrong
        return view(request, **values)

    operation.view_func = asked

    @wraps(run)
    def run_renamed(request: HttpRequest, **path: Any) -> Any:
        params = renamed(request.GET, allowed)
        if params is not None:
            request.GET = params  # type: ignore[assignment]
        return run(request, **path)

    return run_renamed


def names(operation: Operation) -> list[str]:
    """The query parameters that the operation takes, in their order."""
    queries = [model for model in operation.models if model.__ninja_param_source__ == "query"]
    return [name for model in queries for name in getattr(model, "__ninja_flatten_map__")]  # noqa: B009 - set by Ninja


def refusal(request: HttpRequest, allowed: Collection[str] = ()) -> RequestError | None:
    """What is wrong with the names of the request's parameters; None where nothing is."""
    for name in unknown(request.GET, allowed):
        there = f"parameters are {', '.join(sorted(allowed))}" if allowed else "there are none here"
        shown = name[:LONGEST_NAME]
        return RequestError(f"there is no parameter {shown!r}: {there}", field=shown)
    for name in repeated(request.GET, allowed):
        return RequestError(f"{name!r} is there more than once", field=name)
    return None

"""What no page can mean: said before any page asks the database."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

API = "/api/"  # answers for itself, in JSON

Respond = Callable[[HttpRequest], HttpResponse]


def refuse_nul(respond: Respond) -> Respond:
    """400 for an address with the character 0: Postgres can't hold it, so nothing is called so."""

    def answer(request: HttpRequest) -> HttpResponse:
        has_nul = "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", "")
        if has_nul and not request.path.startswith(API):
            return HttpResponseBadRequest("This address has a character that no name has.", content_type="text/plain")
        return respond(request)

    return answer

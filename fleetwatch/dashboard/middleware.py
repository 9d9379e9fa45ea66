"""What no page can mean: said before any page asks the database."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

API = "/api/"  # answers for itself, in JSON

Respond = Callable[[HttpRequest], HttpResponse]


def refuse_nul(respond: Respond) -> Respond:
    """400 for an address or a form with the character 0: Postgres can't hold it, so nothing is
    called so.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        if request.path.startswith(API):
            return respond(request)
        if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            return HttpResponseBadRequest(
                "This address has a character that no name has.", content_type="text/plain"
            )
        if any("\x00" in text for _, texts in request.POST.lists() for text in texts):
            sentence = (
                "This form has a character (NUL) that no text can have. Go back, take it out and"
                " send it again."
            )
            return HttpResponseBadRequest(sentence, content_type="text/plain")
        return respond(request)

    return answer

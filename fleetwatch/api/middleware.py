"""Errors of the API are JSON wherever they arise: in Django's own checks, in a middleware, in a
view that broke. And what it answers of a demo says so.
"""

import json
import time
from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse

from fleetwatch.accounts.selectors import is_demo

API = "/api/"
JSON = "application/json"
ERRORS = {
    400: "the request can't be read, or names a host that this hub does not answer to",
    403: "this is not allowed",
    404: "there is nothing at this address",
    405: "this method is not allowed here",
    413: "the request is too large",
    500: "something broke on our side; it was logged",
}

Respond = Callable[[HttpRequest], HttpResponse]

DEMO = "FleetWatch-Demo"
KNOWN_FOR_S = 10  # so that no answer asks once more whether it is a demo's


def name_the_demo(respond: Respond) -> Respond:
    """What the API tells of a simulated fleet has the header `FleetWatch-Demo: 1`."""
    known_until_s = 0.0
    of_demo = False

    def answer(request: HttpRequest) -> HttpResponse:
        nonlocal known_until_s, of_demo
        response = respond(request)
        is_told = request.method == "GET" and request.path_info.startswith(API)
        if not is_told or response.status_code >= 400:
            return response
        now_s = time.monotonic()
        if now_s >= known_until_s:
            of_demo = is_demo()
            known_until_s = now_s + KNOWN_FOR_S
        if of_demo:
            response[DEMO] = "1"
        return response

    return answer


def answer_in_json(respond: Respond) -> Respond:
    """The answer as it is, or `{"error", "field"}` in the place of an error's page or empty body;
    status and headers stay.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        response = respond(request)
        is_ours = request.path_info.startswith(API) and response.status_code >= 400
        if not is_ours or response.headers.get("Content-Type", "").startswith(JSON):
            return response
        status = response.status_code
        error = ERRORS.get(status) or HTTPStatus(status).phrase.lower()
        response.content = json.dumps({"error": error, "field": None}).encode()
        response["Content-Type"] = JSON
        response["Content-Length"] = str(len(response.content))
        return response

    return answer

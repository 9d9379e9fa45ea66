"""The policy of what a browser may load for an answer."""

import pytest
from csp.exceptions import CSPNonceError
from django.http import HttpResponse, JsonResponse

from fleetwatch.lib.content_policy import ContentPolicy

HEADER = "Content-Security-Policy"


def answered(rf, answer):
    """The request, and what the middleware makes of the answer to it."""
    request = rf.get("/")
    return request, ContentPolicy(answer)(request)


def test_data_has_the_policy_of_pages_without_a_nonce(rf):
    request, data = answered(rf, lambda _: JsonResponse({}))
    _, page = answered(rf, lambda asked: HttpResponse(asked.csp_nonce))

    nonce = f" 'nonce-{page.content.decode()}'"
    assert nonce in page[HEADER]
    assert data[HEADER] == page[HEADER].replace(nonce, "")
    with pytest.raises(CSPNonceError):  # it would stand in no header
        str(request.csp_nonce)


def test_an_answer_with_a_policy_of_its_own_keeps_it(rf):
    own = {HEADER: "default-src 'none'"}

    _, answer = answered(rf, lambda _: HttpResponse(headers=own))

    assert answer[HEADER] == own[HEADER]

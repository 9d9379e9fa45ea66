"""The Content-Security-Policy of every answer, by django-csp."""

from typing import Any

from csp.constants import HEADER
from csp.middleware import CheckableLazyObject, CSPMiddleware
from csp.utils import build_policy
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class ContentPolicy(CSPMiddleware):
    """django-csp's middleware. What names no nonce, as data and files do not, has the same policy
    each time: that is written once.
    """

    def __init__(self, respond: Any) -> None:
        super().__init__(respond)
        self._without_nonce = build_policy()

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """The answer with its policy, where it brings none of its own."""
        if getattr(request, "_csp_nonce", None) is not None:
            return super().process_response(request, response)
        response.headers.setdefault(HEADER, self._without_nonce)
        # one that is asked for now would be in no header
        request.csp_nonce = CheckableLazyObject(self._csp_nonce_post_response)  # type: ignore[attr-defined]
        return response

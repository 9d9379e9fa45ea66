"""`{% url %}` of pages with long tables."""

from functools import lru_cache
from typing import Any

from django.template.base import Parser, Token
from django.template.context import Context
from django.template.defaulttags import URLNode, url
from django.urls import reverse
from django.utils.html import conditional_escape


class Address(URLNode):
    """Django's `url`, which looks an address up once: a table asks for the same hundreds of times,
    and each is a search through all patterns.
    """

    def render(self, context: Context) -> str:
        args = tuple(arg.resolve(context) for arg in self.args)
        url = _address(self.view_name.resolve(context), args)
        if self.asvar:
            context[self.asvar] = url
            return ""
        return conditional_escape(url)


@lru_cache(maxsize=20_000)
def _address(name: str, args: tuple[Any, ...]) -> str:
    return reverse(name, args=args)


def address_tag(parser: Parser, token: Token) -> URLNode:
    """`url`; one with named arguments is Django's own."""
    node = url(parser, token)
    return node if node.kwargs else Address(node.view_name, node.args, {}, node.asvar)

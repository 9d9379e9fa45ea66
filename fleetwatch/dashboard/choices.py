"""What an address chooses of a few things: by what a table is grouped, which status is listed."""

from collections.abc import Collection, Mapping

from django.contrib import messages
from django.http import HttpRequest

TOLD = 25  # of the choices
LONGEST = 60  # characters of what was asked for
GROUPINGS = "group_by"  # what people choose by a name that is no word
SHORTER = {"model": "gpu_model"}  # what people write of them


def chosen(request: HttpRequest, name: str, choices: Collection[str], *, default: str = "") -> str:
    """What the address asks for by that name; one that is none of the choices is said on the page,
    and the default is shown.
    """
    asked = request.GET.get(name) or default
    if name == GROUPINGS and SHORTER.get(asked) in choices:
        return SHORTER[asked]
    if asked in choices or asked == default:
        return asked
    refuse(request, name, asked, choices)
    return default


def chosen_several(request: HttpRequest, name: str, choices: Collection[str]) -> tuple[str, ...]:
    """What the address asks for by that name, several with commas; where one is none of the
    choices, that is said on the page, and nothing is chosen.
    """
    asked = tuple(filter(None, request.GET.get(name, "").split(",")))
    for each in asked:
        if each not in choices:
            refuse(request, name, each, choices)
            return ()
    return asked


def first_page(request: HttpRequest) -> None:
    """Says on a list's first page that the cursor which the address names leads nowhere."""
    after = request.GET.get("after")
    if after:
        _say(request, f"There is no page after {after[:LONGEST]!r}: this is the first one.")


def refuse(request: HttpRequest, name: str, asked: str, choices: Collection[str]) -> None:
    """Says on the page that there is no such thing, and what there is."""
    names = [*_in_words(name, choices)[:TOLD], *(["…"] if len(choices) > TOLD else [])]
    there = f"; there are {', '.join(names)}" if names else ""
    of = "grouping by" if name == GROUPINGS else f"`{name}`"
    _say(request, f"There is no {of} {asked[:LONGEST]!r}{there}.")


def _say(request: HttpRequest, sentence: str) -> None:
    """Once on a page, of which several parts may ask for the same."""
    sentences = request.__dict__.setdefault("wrong_choices", set())
    if sentence not in sentences:
        sentences.add(sentence)
        messages.error(request, sentence)


def _in_words(name: str, choices: Collection[str]) -> list[str]:
    """What there is to choose, groupings as the page calls them."""
    if name == GROUPINGS and isinstance(choices, Mapping):
        return [f"{label}" for label in choices.values()]
    return list(choices)

"""Pages as tests read them."""

import re

TAG = re.compile(r"<[^>]+>")


def tight(page: str) -> str:
    """The page with no space beside its tags: how the lines of a template break doesn't matter."""
    return re.sub(r"\s*(<[^>]*?)\s*>\s*", r"\1>", " ".join(page.split()))


def in_text(page: str) -> str:
    """What the page says, without its tags."""
    return " ".join(TAG.sub(" ", page).split())

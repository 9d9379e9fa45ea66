"""Pages as tests read them."""

import re


def tight(page: str) -> str:
    """The page with no space beside its tags: how the lines of a template break doesn't matter."""
    return re.sub(r"\s*(<[^>]*?)\s*>\s*", r"\1>", " ".join(page.split()))

"""Pages are written one element a line and sent without their indentation."""

import re

from django.template.base import Origin
from django.template.loaders import filesystem

LINE_BREAK = re.compile(r"\s*\n\s*")
# djangofmt breaks the line between two tags: `{% endif %}{% if rate %}, {{ rate }}{% endif %}`
# stays a sentence whose comma follows a word.
BEFORE_PUNCTUATION = re.compile(r"\s*\n\s*(?=(?:\{% (?:if|for|with) [^%]*%\}\s*)*[.,;:)])")


class Loader(filesystem.Loader):
    """Reads the templates of DIRS; a text mail keeps its lines."""

    def get_contents(self, origin: Origin) -> str:
        """The template with each line break as the one space that a browser shows.

        None where a tag begins with punctuation, and none at the ends: what is included can stand
        before a comma.
        """
        source = super().get_contents(origin)
        if not origin.name.endswith(".html"):
            return source
        return LINE_BREAK.sub(" ", BEFORE_PUNCTUATION.sub("", source)).strip()

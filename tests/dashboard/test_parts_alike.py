"""What several pages show alike is one part: its markup stands in one file."""

from pathlib import Path

import pytest
from django.conf import settings

TEMPLATES = Path(settings.BASE_DIR) / "templates"


@pytest.mark.parametrize(
    ("markup", "part"),
    [
        ("<progress", "dashboard/_bar.html"),
        ("a worker begins within seconds", "dashboard/_how_far.html"),
        ('hx-trigger="load" hx-swap="outerHTML"', "dashboard/_fetched.html"),
    ],
)
def test_a_part_that_pages_share_is_written_once(markup, part):
    having = [path for path in TEMPLATES.rglob("*.html") if markup in path.read_text()]

    assert [str(path.relative_to(TEMPLATES)) for path in having] == [part]

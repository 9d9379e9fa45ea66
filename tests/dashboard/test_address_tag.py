"""`{% url %}` of templates is Django's, but for what an address is looked up for once."""

import pytest
from django.template import engines
from django.urls import NoReverseMatch

from fleetwatch.dashboard.drawing.bar_svg import spark, state_band
from fleetwatch.dashboard.drawing.bars import Segment

HOSTILE = "slurm/della/1&2'<b>"


def shown(source: str, **context: object) -> str:
    return engines["django"].from_string("{% load fleetwatch %}" + source).render(context)


def test_an_address_is_escaped_where_it_is_shown():
    assert shown("{% url 'job' key %}", key=HOSTILE) == "/jobs/slurm/della/1&amp;2&#x27;%3Cb%3E"


def test_an_address_that_is_kept_is_escaped_once():
    page = shown("{% url 'job' key as address %}{{ address }}", key=HOSTILE)

    assert page == "/jobs/slurm/della/1&amp;2&#x27;%3Cb%3E"


def test_the_same_address_of_something_else_is_another_one():
    page = "{% for key in keys %}{% url 'job' key %} {% endfor %}"

    assert shown(page, keys=["a/b/1", "a/b/2", "a/b/1"]) == "/jobs/a/b/1 /jobs/a/b/2 /jobs/a/b/1 "


def test_what_there_is_no_page_for_is_an_error():
    with pytest.raises(NoReverseMatch):
        shown("{% url 'no-such-page' %}")


def test_named_arguments_are_those_of_django():
    assert shown("{% url 'finding' pk=7 %}") == "/findings/7"


def test_titles_of_a_band_are_text():
    band = state_band([Segment("idle", "0%", "100%", HOSTILE)], label=HOSTILE)

    assert "<b>" not in band
    assert "<title>slurm/della/1&amp;2&#x27;&lt;b&gt;</title>" in band


def test_little_bars_show_the_least_that_is_not_nothing():
    """Of 24 units: all, half, and one for a hundredth; none for nothing."""
    drawn = 'd="M0 24v-24.0h.8v24.0zM1 24v-12.0h.8v12.0zM2 24v-1h.8v1z"'

    assert drawn in spark([1.0, 0.5, 0.01, 0.0], "wasted")

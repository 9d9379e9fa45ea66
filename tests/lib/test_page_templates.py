"""Templates as they are sent: without their indentation."""

import pytest
from django.template import Context, Engine


def rendered(folder, source, name="page.html", **values):
    """The template as the hub's loader sends it."""
    (folder / name).write_text(source)
    engine = Engine(dirs=[folder], loaders=["fleetwatch.lib.page_templates.Loader"])
    return engine.get_template(name).render(Context(values))


@pytest.mark.parametrize(
    ("source", "sent"),
    [
        ("<p>\n  one\n  <b>two</b>\n</p>\n", "<p> one <b>two</b> </p>"),
        ("<b>one  two</b>", "<b>one  two</b>"),
        ("{{ a }}{% if b %}; {{ b }}{% endif %}\n", "1; 2"),
        ("{{ a }}\n{% if b %}; {{ b }}{% endif %}", "1; 2"),
        (
            "{{ a }}\n  {% with c=b %}\n    {% if c %},\n      {{ c }}{% endif %}{% endwith %}",
            "1, 2",
        ),
        ("{{ a }}\n{% if b %}to {{ b }}{% endif %}", "1 to 2"),
        ("{% for n in many %}{{ n }}{% if not forloop.last %},\n{% endif %}{% endfor %}", "3, 4"),
    ],
)
def test_a_line_break_is_one_space_and_none_before_punctuation(tmp_path, source, sent):
    assert rendered(tmp_path, source, a=1, b=2, many=[3, 4]) == sent


def test_what_is_filled_in_keeps_its_lines(tmp_path):
    assert rendered(tmp_path, "<textarea>{{ text }}</textarea>", text="a\n  b") == (
        "<textarea>a\n  b</textarea>"
    )


def test_a_text_mail_keeps_its_lines(tmp_path):
    assert rendered(tmp_path, "one\n  two\n", name="mail.txt") == "one\n  two\n"

"""What the browser is given: within the security policy, and nothing that sends data away."""

import gzip
import json
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders

from fleetwatch import settings
from fleetwatch.dashboard import finders as finders_of_ours

ROOT = settings.BASE_DIR
TEMPLATES = [
    path
    for path in (ROOT / "templates").rglob("*.html")
    if path.parts[-2] not in ("notify", "reports")
]


def test_plotly_never_offers_to_upload_a_chart():
    script = (ROOT / "static/js/charts.js").read_text()

    assert 'showSendToCloud: false, plotlyServerURL: ""' in script
    assert "displaylogo: false" in script
    assert script.count("Plotly.react(") == script.count(", CONFIG)") == 1


def test_plotly_is_what_npm_brought_for_our_charts_else_the_whole_of_its_python_package(tmp_path):
    whole = finders_of_ours.folder(beside=tmp_path)
    small = tmp_path / "share" / "plotly"
    small.mkdir(parents=True)
    (small / "plotly.min.js").write_text("// cartesian")

    assert finders_of_ours.folder(beside=tmp_path) == small
    assert whole.as_posix().endswith("plotly/package_data")
    assert (whole / "plotly.min.js").exists()


def test_plotly_is_found_and_is_not_in_the_tree():
    assert finders.find("plotly/plotly.min.js")
    assert not list((ROOT / "static").rglob("*plotly*.js"))


def test_npm_brings_the_version_that_the_python_package_has():
    """Figures are validated by the one and drawn by the other."""
    lock = json.loads((ROOT / "deploy/npm/package-lock.json").read_text())["packages"]
    locked = lock["node_modules/plotly.js-cartesian-dist-min"]
    whole = (finders_of_ours.folder(beside=ROOT / "nowhere") / "plotly.min.js").read_text()

    assert f"plotly.js v{locked['version']}\n" in whole[:200]
    assert locked["integrity"].startswith("sha512-")


def test_plotly_finds_its_styles_there_already():
    """Without these two elements plotly.js adds style elements, which the policy forbids."""
    scripts = " ".join((ROOT / "templates/dashboard/_chart_scripts.html").read_text().split())
    plotly = Path(str(finders.find("plotly/plotly.min.js"))).read_text()
    map_styles = scripts.split('<meta id="')[1].split('"')[0]

    assert f'getElementById("{map_styles}")' in plotly
    assert 'id="plotly.js-style-global" class="no-inline-styles"' in scripts


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_inline_style_or_script(path):
    text = path.read_text()

    assert "style=" not in text
    assert "<style" not in text
    assert " onclick" not in text
    assert "javascript:" not in text
    assert "<script>" not in text


def test_the_style_sheets_stay_small_as_they_are_sent():
    sheets = [path.read_bytes() for path in (ROOT / "static/css").glob("*.css")]

    assert sum(len(gzip.compress(sheet)) for sheet in sheets) <= 14_000


def test_the_icon_is_where_programs_ask_for_it_that_read_no_page(client, plain_static_files):
    answer = client.get("/favicon.ico")

    assert (answer.status_code, answer["Location"]) == (302, "/static/img/favicon.svg")


def test_on_a_narrow_page_of_an_incident_one_responds_right_after_its_first_steps():
    """Both come before the rest, in the order in which the page has them."""
    narrow = (ROOT / "static/css/narrow_and_paper.css").read_text()
    page = (ROOT / "templates/dashboard/incident.html").read_text()

    assert ".steps-first :is(#first-steps, #act) { order: -1; }" in narrow
    assert page.index('id="first-steps"') < page.index("_incident_acts.html")

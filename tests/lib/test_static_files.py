"""Static files of a hub whose web hosts are upgraded one after the other."""

import pytest
from django.http import HttpResponse, HttpResponseNotFound

from fleetwatch.lib.static_files import StaticFiles


def next_in_line(_request) -> HttpResponse:
    return HttpResponseNotFound("the application's answer")


@pytest.fixture
def answer(settings, tmp_path, rf):
    (tmp_path / "css").mkdir()
    (tmp_path / "css" / "app.css").write_text("body {}")
    (tmp_path / "css" / "app.0123456789ab.css").write_text("body { color: red }")
    settings.STATIC_ROOT = str(tmp_path)
    files = StaticFiles(next_in_line)
    return lambda path: files(rf.get(f"/static/{path}"))


def test_a_file_of_another_version_is_the_own_one_of_that_name_for_a_minute(answer):
    response = answer("css/app.ffffffffffff.css")

    assert (response.status_code, b"".join(response)) == (200, b"body {}")
    assert response["Cache-Control"] == "max-age=60, public"


def test_the_own_version_s_file_is_itself(answer):
    assert b"".join(answer("css/app.0123456789ab.css")) == b"body { color: red }"


@pytest.mark.parametrize("path", ["css/other.ffffffffffff.css", "css/app.fff.css", "css/app..css"])
def test_what_no_version_has_is_the_application_s_to_answer(answer, path):
    assert answer(path).status_code == 404

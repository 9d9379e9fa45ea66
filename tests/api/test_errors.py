"""An error of the API is JSON, whoever says no: Django, a middleware, a view that broke."""

import io
import logging

import pytest
from django.db import connection
from django.test import Client

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]


def error_of(answer) -> tuple[int, str, str]:
    return answer.status_code, answer["Content-Type"], answer.json()["error"]


def test_a_view_that_breaks_answers_json_without_a_traceback():
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE accounts_apitoken RENAME TO taken_away")

    answer = Client(raise_request_exception=False, headers={"Authorization": "Bearer x"}).get(
        "/api/v1/nodes"
    )

    assert error_of(answer) == (
        500,
        "application/json",
        "something broke on our side; it was logged",
    )
    assert answer.json()["field"] is None
    assert int(answer["Content-Length"]) == len(answer.content)


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v2/nodes", "/api/"])
def test_an_address_that_is_none_answers_json(path):
    assert error_of(Client().get(path)) == (
        404,
        "application/json",
        "there is nothing at this address",
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [("get", "/api/v1/batches"), ("get", "/api/v1/enroll"), ("post", "/api/v1/openapi.json")],
)
def test_another_method_answers_json_and_still_names_the_right_ones(method, path):
    answer = getattr(Client(), method)(path)

    assert error_of(answer) == (405, "application/json", "this method is not allowed here")
    assert answer["Allow"]


def test_a_host_that_is_not_ours_answers_json():
    answer = Client().get("/api/v1/nodes", headers={"Host": "evil.example"})

    assert error_of(answer) == (
        400,
        "application/json",
        "the request can't be read, or names a host that this hub does not answer to",
    )


def test_a_page_that_is_not_there_stays_a_page():
    answer = Client().get("/nothing-here")

    assert answer.status_code == 404
    assert "<html" in answer.content.decode()


@pytest.mark.parametrize("host", ["evil.example", "evil\r\nforged line", "x" * 5000])
def test_a_host_that_is_not_ours_is_one_line_of_the_log(host):
    (handler,) = logging.getLogger("django").handlers
    lines = io.StringIO()
    before = handler.setStream(lines)
    try:
        answer = Client().get("/", headers={"Host": host})
    finally:
        handler.setStream(before)

    assert answer.status_code == 400
    assert lines.getvalue().startswith("Invalid HTTP_HOST header: ")
    assert lines.getvalue().count("\n") == 1
    assert len(lines.getvalue()) <= 301

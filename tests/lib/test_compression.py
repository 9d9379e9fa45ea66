"""What is sent compressed, and what never is because a secret could be guessed by its length."""

import gzip

import pytest
from django.http import FileResponse, HttpResponse, JsonResponse
from django.test import RequestFactory

from fleetwatch.lib.compression import Compression

LONG = "<p>node-001 idle</p>" * 50
TAKES_GZIP = {"Accept-Encoding": "gzip, deflate, br"}


def sent(answer, *, path="/jobs", method="GET", headers=TAKES_GZIP):
    request = RequestFactory().generic(method, path, headers=headers)
    return Compression(lambda _: answer)(request)


@pytest.mark.parametrize(
    "answer",
    [
        HttpResponse(LONG),
        JsonResponse({"cells": LONG}),
        HttpResponse(LONG, content_type="text/csv"),
    ],
    ids=["page", "figure", "csv"],
)
def test_text_is_compressed_and_is_the_same_text(answer):
    whole = answer.content

    compressed = sent(answer)

    assert compressed["Content-Encoding"] == "gzip"
    assert gzip.decompress(compressed.content) == whole
    assert len(compressed.content) < len(whole) / 2
    assert int(compressed["Content-Length"]) == len(compressed.content)
    assert "Accept-Encoding" in compressed["Vary"]


def test_equal_answers_differ_in_length_so_that_length_tells_nothing():
    lengths = {len(sent(HttpResponse(LONG)).content) for _ in range(30)}

    assert len(lengths) > 1


@pytest.mark.parametrize(
    "answer",
    [
        {"method": "POST"},
        {"path": "/accounts/2fa/recovery-codes/"},
        {"path": "/accounts/invitations/secret/"},
        {"headers": {}},
    ],
    ids=["shown-once", "recovery-codes", "invitation", "reader-takes-none"],
)
def test_what_may_hold_a_secret_or_is_not_asked_for_stays_as_it_is(answer):
    response = sent(HttpResponse(LONG), **answer)

    assert "Content-Encoding" not in response
    assert response.content == LONG.encode()


def test_files_and_what_is_short_stay_as_they_are(tmp_path):
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(b"PK" * 500)

    with archive.open("rb") as file:
        assert "Content-Encoding" not in sent(FileResponse(file))
    sheet = HttpResponse(b"PK" * 500, content_type="application/vnd.ms-excel")
    assert "Content-Encoding" not in sent(sheet)
    assert "Content-Encoding" not in sent(HttpResponse("ok"))

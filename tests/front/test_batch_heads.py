"""Heads of batches that are read past the parser: those that can be read in one way alone."""

import pytest

from fleetwatch.front import batch_heads
from tests.front.serving import batch_head, head

USUAL = batch_head(bearer="fw_1", length=5)


def with_line(line):
    return USUAL.replace(b"\r\n\r\n", b"\r\n" + line + b"\r\n\r\n")


def test_the_usual_head_is_read_whatever_comes_behind_it():
    read = batch_heads.read(USUAL + b"12345")

    assert (read.size, read.body_size, read.is_last) == (len(USUAL), 5, False)
    assert read.headers[b"authorization"] == b"Bearer fw_1"
    assert read.headers[b"host"] == b"127.0.0.1"


@pytest.mark.parametrize(
    "line",
    [
        b"User-Agent: fleetwatch-agent/1",
        b"X-Forwarded-For: 10.0.0.1, 10.0.0.2",
        b"Connection: keep-alive",
        b"X-FleetWatch-Sent-Ms:1",
        b"X-Empty:",
    ],
)
def test_what_agents_and_proxies_add_is_read(line):
    name, _, value = line.partition(b":")

    assert batch_heads.read(with_line(line)).headers[name.lower()] == value.strip()


def test_who_wants_the_connection_closed_says_so():
    assert batch_heads.read(with_line(b"connection: Close")).is_last


@pytest.mark.parametrize(
    "data",
    [
        b"",
        USUAL[:-1],
        USUAL.replace(b"HTTP/1.1", b"HTTP/1.0"),
        USUAL.replace(b"POST", b"GET"),
        USUAL.replace(b"/batches", b"/batches?a=1"),
        USUAL.replace(b"host: 127.0.0.1\r\n", b""),
        USUAL.replace(b"content-length: 5", b"content-length: 0"),
        USUAL.replace(b"content-length: 5", b"content-length: +5"),
        USUAL.replace(b"content-length: 5", b"content-length: 5, 5"),
        USUAL.replace(b"content-length: 5\r\n", b""),
        USUAL.replace(b"content-length: 5", b"content-length: 99999999"),
        USUAL.replace(b"content-length: 5", b"content-length: " + b"9" * 5000),
        USUAL.replace(b"content-length: 5", b"content-length: -5"),
        USUAL.replace(b"content-length: 5", b"content-length: 0x5"),
        USUAL.replace(b"POST", b"post"),
        b"\r\n" + USUAL,
        with_line(b"Content-Length: 5"),
        with_line(b"Host: other"),
        with_line(b"Transfer-Encoding: chunked"),
        with_line(b"Expect: 100-continue"),
        with_line(b"Upgrade: h2c"),
        with_line(b"Connection: upgrade"),
        with_line(b"TE: trailers"),
        with_line(b" folded: 1"),
        with_line(b"Spaced : 1"),
        with_line(b"X: a\nTransfer-Encoding: chunked"),
        with_line(b"X: a\x00b"),
        with_line(b"X: \xc3\xa4"),
        with_line(b"nothing"),
        with_line(b"\r\n".join(b"X-%d: 1" % number for number in range(40))),
        with_line(b"X: " + b"x" * batch_heads.MAX_BYTES),
    ],
)
def test_what_is_written_in_any_other_way_is_the_parsers(data):
    assert batch_heads.read(data + b"12345") is None


def test_another_request_is_the_parsers():
    assert batch_heads.read(head("POST", "/api/v1/enroll", content_length="5")) is None

"""Bodies are read and expanded within bounds, whatever they declare."""

import gzip
import io

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.test import RequestFactory

from agent.wire import WireError
from fleetwatch.ingest.body import TooLargeError, as_gzip, expand, read_bounded
from fleetwatch.ingest.requests import read_body


class Endless:
    """A stream that never ends; it counts what was taken from it."""

    def __init__(self):
        self.taken = 0

    def read(self, size):
        self.taken += size
        return b"x" * size

    readline = read


def chunked(stream):
    environ = RequestFactory()._base_environ(
        REQUEST_METHOD="POST", CONTENT_TYPE="application/json", HTTP_TRANSFER_ENCODING="chunked"
    )
    return WSGIRequest(environ | {"wsgi.input": stream})


def test_a_stream_is_read_up_to_its_limit():
    assert read_bounded(io.BytesIO(b"x" * 100), limit=100) == b"x" * 100
    with pytest.raises(TooLargeError):
        read_bounded(io.BytesIO(b"x" * 101), limit=100)


def test_an_endless_body_without_a_length_is_cut_short():
    stream = Endless()

    with pytest.raises(TooLargeError):
        read_body(chunked(stream), limit=1000)

    assert stream.taken <= 1001


def test_a_chunked_body_is_read():
    assert read_body(chunked(io.BytesIO(b"{}"))) == b"{}"


def test_a_declared_length_over_the_limit_is_refused_unread():
    stream = Endless()
    environ = RequestFactory()._base_environ(
        REQUEST_METHOD="POST", CONTENT_TYPE="application/json", CONTENT_LENGTH="1001"
    )

    with pytest.raises(TooLargeError):
        read_body(WSGIRequest(environ | {"wsgi.input": stream}), limit=1000)

    assert stream.taken == 0


@pytest.mark.parametrize(("size", "fits"), [(1000, True), (1001, False)])
def test_an_expanded_body_fits_or_not(size, fits):
    packed = gzip.compress(b" " * size)

    if fits:
        assert expand(packed, "gzip", limit=1000) == b" " * size
    else:
        with pytest.raises(TooLargeError):
            expand(packed, "gzip", limit=1000)


@pytest.mark.parametrize(
    "body", [b"", b"x", gzip.compress(b"x", mtime=0)[:-1], gzip.compress(b"x", mtime=0) * 2]
)
def test_what_is_no_single_gzip_is_refused(body):
    with pytest.raises(WireError):
        expand(body, "gzip")


def test_a_body_is_kept_as_gzip():
    packed = gzip.compress(b"{}", mtime=0)

    assert as_gzip(packed, "gzip") is packed
    assert gzip.decompress(as_gzip(b"{}", "")) == b"{}"

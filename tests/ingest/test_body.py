"""Bodies are read and expanded within bounds, whatever they declare."""

import gzip
import io
import zlib

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.test import RequestFactory

from agent.wire import WireError
from fleetwatch.ingest.body import TooLargeError, expand
from fleetwatch.ingest.requests import read_body


def sent(size):
    environ = RequestFactory()._base_environ(
        REQUEST_METHOD="POST", CONTENT_TYPE="application/json", CONTENT_LENGTH=str(size)
    )
    return WSGIRequest(environ | {"wsgi.input": io.BytesIO(b"x" * size)})


def test_a_body_is_read_up_to_its_limit():
    assert read_body(sent(1000), limit=1000) == b"x" * 1000
    with pytest.raises(TooLargeError):
        read_body(sent(1001), limit=1000)


def test_of_a_body_beyond_the_limit_one_byte_more_is_read():
    request = sent(5000)

    with pytest.raises(TooLargeError):
        read_body(request, limit=1000)

    assert request.environ["wsgi.input"].tell() == 1001


@pytest.mark.parametrize(("size", "fits"), [(1000, True), (1001, False)])
def test_an_expanded_body_fits_or_not(size, fits):
    packed = gzip.compress(b" " * size)

    if fits:
        assert expand(packed, "gzip", limit=1000) == b" " * size
    else:
        with pytest.raises(TooLargeError):
            expand(packed, "gzip", limit=1000)


@pytest.mark.parametrize(
    ("encoding", "whole"),
    [("gzip", gzip.compress(b"x", mtime=0)), ("deflate", zlib.compress(b"x"))],
)
def test_what_is_not_just_what_its_encoding_says_is_refused(encoding, whole):
    assert expand(whole, encoding) == b"x"
    for body in (b"", b"x", whole[:-1], whole * 2):
        with pytest.raises(WireError):
            expand(body, encoding)

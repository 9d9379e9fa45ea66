"""Bodies are read and expanded within bounds, whatever they declare."""

import gzip
import io

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.test import RequestFactory

from agent.wire import WireError
from fleetwatch.ingest.body import TooLargeError, as_gzip, expand
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
    "body", [b"", b"x", gzip.compress(b"x", mtime=0)[:-1], gzip.compress(b"x", mtime=0) * 2]
)
def test_what_is_no_single_gzip_is_refused(body):
    with pytest.raises(WireError):
        expand(body, "gzip")


def test_a_body_is_kept_as_gzip():
    packed = gzip.compress(b"{}", mtime=0)

    assert as_gzip(packed, "gzip") is packed
    assert gzip.decompress(as_gzip(b"{}", "")) == b"{}"

"""The JSON of a packed batch is stored as it came: what is let in is what every later reader takes,
for one node's batch that can't be read would stop the pages and the sealing of all.
"""

import json
import zlib

import pytest

from agent import packed
from fleetwatch.inventory.models import Node
from fleetwatch.telemetry import hot
from fleetwatch.telemetry.models import Batch
from tests.ingest.factories import NOW_MS, T0, gpu, pack, payload, post, token
from tests.ingest.wsgi import DoorClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

HOUR_MS = 3_600_000


@pytest.fixture
def client():
    return DoorClient()


def mapping(sequence=1):
    return payload(
        sequence=sequence,
        start_ms=T0 + sequence * 30_000,
        gpus=[gpu("GPU-1", index=7)],
        processes=[{"gpu": 0, "job": None, "pid": 7, "state": "Z"}],
    )


def saying(change, sequence=1):
    """The batch's body, its JSON changed."""
    content = zlib.decompress(pack(mapping(sequence)))
    text, place = packed.rest_of(content)
    changed = change(text)
    return zlib.compress(packed.HEAD.pack(packed.MAGIC, len(changed)) + changed + content[place:])


def with_unknown(value):
    return lambda text: text[:-1] + b',"zz":' + value + b"}"


def of_gpu(value):
    return lambda text: text.replace(b'"index":7', b'"index":7,"zz":' + value)


UNREADABLE = {
    "UTF-16": lambda text: json.dumps(json.loads(text)).encode("utf-16"),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "NaN": with_unknown(b"NaN"),
    "infinity": with_unknown(b"-Infinity"),
    "half a surrogate": with_unknown(b'"\\ud800"'),
    "half a surrogate as bytes": with_unknown(b'"\xed\xa0\x80"'),
    "NaN of a GPU": of_gpu(b"NaN"),
    "half a surrogate of a GPU": of_gpu(b'"\\ud800"'),
    "a number beyond all of a GPU": of_gpu(b"1e400"),
}
TWICE = {
    "window_s": lambda text: text.replace(b'"window_s"', b'"window_s":"x","window_s"'),
    "a GPU's uuid": lambda text: text.replace(b'"uuid"', b'"uuid":7,"uuid"'),
    "a process's gpu": lambda text: text.replace(b'"gpu":0', b'"gpu":"x","gpu":0'),
    "a process's state": lambda text: text.replace(b'"state"', b'"state":[1],"state"'),
}


@pytest.mark.parametrize("form", ["deflate", "identity"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_what_no_other_reader_takes_for_json_is_refused(client, name, form):
    body = saying(UNREADABLE[name])
    headers = {"content_type": packed.CONTENT_TYPE, "content_encoding": form}

    answer = post(
        client, body if form == "deflate" else zlib.decompress(body), bearer=token(), **headers
    )

    assert (answer.status_code, answer.json()["error"][:8]) == (422, "not JSON")
    assert not Batch.objects.exists()


@pytest.mark.parametrize("name", TWICE)
def test_a_key_that_is_there_twice_is_stored_and_read_hot(client, name):
    bearer = token()
    for sequence in (1, 2, 3):
        answer = post(client, saying(TWICE[name], sequence), bearer=bearer)
        assert answer.json()["stored"] == 3

    node_id = Node.objects.get().pk
    span = (NOW_MS - HOUR_MS, NOW_MS + HOUR_MS)
    windows = hot.unsealed([node_id], span, [], ends_after_ms=0)[node_id].windows

    assert len(windows["start_ms"]) == 9

"""What peers are sent is what the remote write protocol says, byte by byte."""

import cramjam
import numpy as np

from benchmarks import remote_write

AT_MS = 1_700_000_000_000


def _sent(*series: tuple[bytes, list[int], list[float]]) -> bytes:
    body = remote_write.request(
        (head, np.array(times, dtype=np.int64), np.array(values)) for head, times, values in series
    )
    return bytes(cramjam.snappy.decompress_raw(body))


def test_one_sample_of_one_series():
    labels = remote_write.labels({"gpu": "a", "__name__": "u"})
    # Label: 0A len name, 12 len value; Sample: 09 double 0.5, 10 varint 1,700,000,000,000
    wanted_labels = b"\x0a\x0d\x0a\x08__name__\x12\x01u" + b"\x0a\x08\x0a\x03gpu\x12\x01a"
    sample = b"\x09" + bytes.fromhex("000000000000e03f") + b"\x10" + bytes.fromhex("80d095ffbc31")
    series = wanted_labels + b"\x12" + bytes([len(sample)]) + sample

    assert labels == wanted_labels
    assert _sent((labels, [AT_MS], [0.5])) == b"\x0a" + bytes([len(series)]) + series


def test_what_was_not_read_is_no_sample():
    labels = remote_write.labels({"__name__": "u"})

    assert _sent((labels, [AT_MS, AT_MS + 1], [np.nan, 0.5])) == _sent((labels, [AT_MS + 1], [0.5]))
    assert _sent((labels, [AT_MS], [np.nan])) == b""


def test_a_long_series_names_its_length_in_two_bytes():
    labels = remote_write.labels({"__name__": "u"})
    message = _sent((labels, [AT_MS + second for second in range(20)], [0.0] * 20))

    length = len(labels) + 20 * (2 + 16)
    assert message[:3] == bytes([0x0A, length & 0x7F | 0x80, length >> 7])
    assert len(message) == 3 + length


def test_requests_cut_at_their_edges_say_what_single_ones_say():
    labels = remote_write.labels({"__name__": "u"})
    times, values = np.array([AT_MS, AT_MS + 10, AT_MS + 20]), np.array([1.0, np.nan, 3.0])
    cut = remote_write.requests(
        [(labels, times, values)], [AT_MS, AT_MS + 10, AT_MS + 20, AT_MS + 21]
    )

    sent = [bytes(cramjam.snappy.decompress_raw(body)) for body in cut]
    assert sent == [_sent((labels, [AT_MS], [1.0])), b"", _sent((labels, [AT_MS + 20], [3.0]))]

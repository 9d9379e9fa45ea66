"""Prometheus' remote write, protocol 0.1.0: a WriteRequest in protobuf, snappy around it. What
peers take in.

https://prometheus.io/docs/concepts/remote_write_spec/ and prometheus/prompb/types.proto:
WriteRequest.timeseries = 1, TimeSeries.labels = 1 and .samples = 2, Label.name = 1 and .value = 2,
Sample.value = 1 (double) and .timestamp = 2 (varint).
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

import cramjam
import numpy as np
from numpy.typing import NDArray

Labels = Mapping[str, str]
TIME_BYTES = 6  # of a varint: milliseconds from 2004 to 2109
_SAMPLE_BYTES = 1 + 8 + 1 + TIME_BYTES
_HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}


def request(series: Iterable[tuple[bytes, NDArray[np.int64], NDArray[np.float64]]]) -> bytes:
    """The body of one request: for each series its `labels()`, times in ms, values.

    A NaN is no sample.
    """
    message = b"".join(
        _field(1, head + _samples(times, values)) for head, times, values in _read(series)
    )
    return bytes(cramjam.snappy.compress_raw(message))


def requests(
    series: Iterable[tuple[bytes, NDArray[np.int64], NDArray[np.float64]]], edges: Sequence[int]
) -> list[bytes]:
    """A request's body for each span between two edges (ms) with what of the series lies in it;
    each series is encoded once.
    """
    parts: list[list[bytes]] = [[] for _ in edges[1:]]
    for head, times, values in _read(series):
        samples = _samples(times, values)
        at = (np.searchsorted(times, edges) * (2 + _SAMPLE_BYTES)).tolist()
        for place, (low, high) in enumerate(itertools.pairwise(at)):
            if low < high:
                parts[place].append(_field(1, head + samples[low:high]))
    return [bytes(cramjam.snappy.compress_raw(b"".join(part))) for part in parts]


def http(path: str, body: bytes) -> bytes:
    """The HTTP request that carries it over a kept connection."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        *(f"{name}: {value}" for name, value in _HEADERS.items()),
    ]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def labels(named: Labels) -> bytes:
    """A series' labels, encoded once and used for all its samples; the protocol wants them
    sorted.
    """
    return b"".join(
        _field(1, _field(1, name.encode()) + _field(2, value.encode()))
        for name, value in sorted(named.items())
    )


def _read(
    series: Iterable[tuple[bytes, NDArray[np.int64], NDArray[np.float64]]],
) -> Iterable[tuple[bytes, NDArray[np.int64], NDArray[np.float64]]]:
    for head, times, values in series:
        known = ~np.isnan(values)
        if known.all():
            yield head, times, values
        elif known.any():
            yield head, times[known], values[known]


def _samples(times: NDArray[np.int64], values: NDArray[np.float64]) -> bytes:
    """All samples of a series, each of the same length: so they are one array of bytes."""
    rows = np.empty((len(times), 2 + _SAMPLE_BYTES), dtype=np.uint8)
    rows[:, 0] = 2 << 3 | 2
    rows[:, 1] = _SAMPLE_BYTES
    rows[:, 2] = 1 << 3 | 1
    rows[:, 3:11] = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).reshape(-1, 8)
    rows[:, 11] = 2 << 3
    rest = times.astype(np.uint64)
    for place in range(TIME_BYTES):
        is_last = place == TIME_BYTES - 1
        rows[:, 12 + place] = (rest & np.uint64(0x7F)) | np.uint64(0 if is_last else 0x80)
        rest >>= np.uint64(7)
    return rows.tobytes()


def _field(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    told = bytearray()
    while number > 0x7F:
        told.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*told, number])

import struct
import zlib

import pytest

from fleetwatch.notify.spark_png import BAR, GAP, HEIGHT, LEAST, MAX_BARS, spark_png


def chunks(png: bytes) -> dict[bytes, bytes]:
    """By kind; every checksum is right."""
    at, parts = 8, {}
    while at < len(png):
        [size] = struct.unpack(">I", png[at : at + 4])
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        [checksum] = struct.unpack(">I", png[at + 8 + size : at + 12 + size])
        assert checksum == zlib.crc32(kind + content)
        parts[kind] = content
        at += 12 + size
    return parts


def heights(png: bytes) -> list[int]:
    """Of each bar the pixels that are seen; between two nothing is."""
    parts = chunks(png)
    width, height = struct.unpack(">II", parts[b"IHDR"][:8])
    raw = zlib.decompress(parts[b"IDAT"])
    rows = [raw[y * (width + 1) + 1 : (y + 1) * (width + 1)] for y in range(height)]
    columns = [sum(row[x] for row in rows) for x in range(width)]
    bars = [columns[x : x + BAR] for x in range(0, width, BAR + GAP)]
    assert not any(columns[x + BAR + gap] for x in range(0, width, BAR + GAP) for gap in range(GAP))
    assert all(len(set(bar)) == 1 for bar in bars)
    return [bar[0] for bar in bars]


@pytest.mark.parametrize(
    ("share", "height"),
    [
        (None, 0),
        (0.0, LEAST),
        (0.001, LEAST),
        (0.5, HEIGHT // 2),
        (1.0, HEIGHT),
        (7.0, HEIGHT),
        (-1.0, LEAST),
    ],
)
def test_a_bar_is_its_share_of_the_height_and_a_gap_is_nothing(share, height):
    assert heights(spark_png([1.0, share, 1.0])) == [HEIGHT, height, HEIGHT]


def test_of_a_long_series_the_newest_are_drawn():
    assert heights(spark_png([1.0] * 5 + [0.0] * MAX_BARS)) == [LEAST] * MAX_BARS


def test_bars_stand_on_the_ground():
    raw = zlib.decompress(chunks(spark_png([0.5]))[b"IDAT"])

    assert raw[-BAR - GAP :] == b"\x01" * BAR + b"\x00" * GAP
    assert raw[1 : BAR + GAP + 1] == b"\x00" * (BAR + GAP)


def test_its_ground_is_not_seen_on_white_and_on_black():
    assert chunks(spark_png([0.5]))[b"tRNS"] == b"\x00\xff"

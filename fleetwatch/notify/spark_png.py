"""A small series as a picture for mail programs, which show no script and few fonts: a PNG by hand
(https://www.w3.org/TR/png-3/). Pure.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence

HEIGHT = 64  # pixels, shown at half of it: sharp on dense screens
BAR = 8
GAP = 2
MAX_BARS = 60  # the newest
LEAST = 2  # what is 0 was measured: it is seen
BLUE = b"\x3b\x82\xf6"  # on white and on black
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def spark_png(shares: Sequence[float | None]) -> bytes:
    """Bars of shares of the full scale (0 to 1; what lies beyond is cut to it) on nothing; where
    nothing was measured nothing is drawn.
    """
    bars = [_pixels(share) for share in shares[-MAX_BARS:]]
    rows = (
        b"".join(bytes([height > above]) * BAR + bytes(GAP) for height in bars)
        for above in reversed(range(HEIGHT))
    )
    header = struct.pack(">IIBBBBB", len(bars) * (BAR + GAP), HEIGHT, 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", header),
        (b"PLTE", BLUE * 2),
        (b"tRNS", b"\x00\xff"),  # the first colour is not seen
        (b"IDAT", zlib.compress(b"".join(b"\x00" + row for row in rows), 9)),
        (b"IEND", b""),
    )
    return SIGNATURE + b"".join(b"".join(_chunk(*part)) for part in parts)


def _pixels(share: float | None) -> int:
    if share is None:
        return 0
    return max(LEAST, round(min(max(share, 0.0), 1.0) * HEIGHT))


def _chunk(kind: bytes, content: bytes) -> Iterator[bytes]:
    yield struct.pack(">I", len(content))
    yield kind + content
    yield struct.pack(">I", zlib.crc32(kind + content))

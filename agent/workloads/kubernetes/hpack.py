"""Header blocks of HTTP/2, as far as a client of one call needs them:
https://www.rfc-editor.org/rfc/rfc7541

The client forbids the peer a dynamic table (SETTINGS_HEADER_TABLE_SIZE 0), so that every block
stands alone.
"""

from typing import Dict, Iterator, Sequence, Tuple

MAX_HEADERS = 256
Header = Tuple[str, str]  # name and value
# Of the static table only what an answer is judged by: index -> (name, value).
_STATIC: Dict[int, Header] = {
    8: (":status", "200"), 9: (":status", "204"), 10: (":status", "206"), 11: (":status", "304"),
    12: (":status", "400"), 13: (":status", "404"), 14: (":status", "500"),
    31: ("content-type", ""),
}  # fmt: skip
_STATIC_SIZE = 61
# RFC 7541, appendix B: the length of each byte's code, A = 5 bits … Z = 30. The code is canonical:
# lengths tell it all.
_LENGTHS = (
    "ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHFIBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJBKABABABBBACCBBBABCBAABCCCCCKGJIX"
    "PRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRSVVPORSRUVVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWV"
)
_MAX_PADDING_BITS = 7


class HeaderError(Exception):
    """A block that this reader does not understand."""


def encode(headers: Sequence[Header]) -> bytes:
    """Every header as a literal that is not to be remembered; names and values are ASCII of at most
    126 bytes.
    """
    return b"".join(b"\x00" + _plain(name) + _plain(value) for name, value in headers)


def _plain(text: str) -> bytes:
    return bytes([len(text)]) + text.encode("ascii")


def decode(block: bytes) -> Dict[str, str]:
    """The headers; those whose name only the rest of the static table knows are left out.

    Raises HeaderError.
    """
    try:
        return dict(pair for pair in _headers(block) if pair[0])
    except IndexError:
        raise HeaderError("the header block ends early") from None


def _headers(block: bytes) -> Iterator[Header]:
    position = 0
    count = 0
    while position < len(block):
        count += 1
        if count > MAX_HEADERS:
            raise HeaderError("more than %d headers" % MAX_HEADERS)
        first = block[position]
        if first & 0x80:
            index, position = _integer(block, position, 7)
            yield _known(index)
        elif first & 0xE0 == 0x20:  # a new size of the dynamic table, which stays empty
            _, position = _integer(block, position, 5)
        else:
            index, position = _integer(block, position, 6 if first & 0x40 else 4)
            name, position = (_known(index)[0], position) if index else _string(block, position)
            value, position = _string(block, position)
            yield name, value


def _known(index: int) -> Header:
    if not 1 <= index <= _STATIC_SIZE:
        raise HeaderError("the header block names entry %d of a table that is forbidden" % index)
    return _STATIC.get(index, ("", ""))


def _integer(block: bytes, position: int, prefix_bits: int) -> Tuple[int, int]:
    """(value, position after it)."""
    most = (1 << prefix_bits) - 1
    value = block[position] & most
    position += 1
    if value < most:
        return value, position
    for shift in range(0, 28, 7):
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise HeaderError("a number in the header block has no end")


def _string(block: bytes, position: int) -> Tuple[str, int]:
    is_coded = bool(block[position] & 0x80)
    length, position = _integer(block, position, 7)
    if position + length > len(block):
        raise HeaderError("the header block ends early")
    raw = block[position : position + length]
    return (_uncoded(raw) if is_coded else raw).decode("latin-1"), position + length


def _uncoded(raw: bytes) -> bytes:
    """Huffman's code undone."""
    codes = _codes()
    text = bytearray()
    code = length = 0
    for byte in raw:
        for bit in range(7, -1, -1):
            code = code << 1 | byte >> bit & 1
            length += 1
            symbol = codes.get((length, code))
            if symbol is not None:
                text.append(symbol)
                code = length = 0
    if length > _MAX_PADDING_BITS or code != (1 << length) - 1:
        raise HeaderError("a coded string does not end as it must")
    return bytes(text)


def _codes() -> Dict[Tuple[int, int], int]:
    """(length, code) -> byte.

    Made anew each time: an answer has one or two coded strings, and 256 pairs cost memory.
    """
    codes: Dict[Tuple[int, int], int] = {}
    code = before = 0
    for length, byte in sorted(
        (ord(letter) - ord("A") + 5, byte) for byte, letter in enumerate(_LENGTHS)
    ):
        code <<= length - before
        codes[length, code] = byte
        code = code + 1
        before = length
    return codes

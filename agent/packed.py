"""The packed form of a batch: its columns as whole numbers in byte planes, the rest as JSON.

Half the bytes of the same batch as JSON under gzip, and a hub reads its columns without parsing a
number. docs/wire.md tells the form; the golden file of tests/agent/test_packed.py freezes it.
Standard library only: the hub imports this module too, and reads columns by numpy
(telemetry/packed_columns.py); what is said here is the reference.
"""

import json
import math
import struct
import sys
import zlib
from array import array
from functools import reduce
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from agent.wire import Batch, Columns, WireError

CONTENT_TYPE = "application/vnd.fleetwatch.batch"
MAGIC = b"FWP1"
# A column is told by its place in this list, so it is only ever added to, at its end.
NAMES = (
    "gpu", "start_ms", "observed_ms", "util_mean", "util_min", "util_max", "util_p5", "util_p10",
    "util_p50", "util_p90", "util_zero_fraction", "util_low_fraction", "util_high_fraction",
    "spin_fraction", "memory_util_mean", "gr_engine_active", "sm_active", "sm_active_max",
    "sm_occupancy", "tensor_active", "dram_active", "fp64_active", "fp32_active", "fp16_active",
    "throttle_thermal_ratio", "throttle_power_ratio", "encoder_ratio", "decoder_ratio",
    "jpeg_ratio", "ofa_ratio", "process_sm_ratio", "job_main_thread_ratio", "util_dips",
    "util_longest_low_s", "util_cycle_s", "util_cycle_cv", "memory_used_bytes",
    "memory_reserved_bytes", "power_w", "power_min_w", "power_max_w", "energy_j",
    "pcie_rx_bytes_s", "pcie_tx_bytes_s", "nvlink_rx_bytes_s", "nvlink_tx_bytes_s", "sm_clock_hz",
    "sm_clock_max_hz", "ecc_uncorrected", "process_count", "job_cpu_ratio", "job_io_read_bytes_s",
    "job_cores", "job_workers", "temperature_c", "memory_temperature_c", "cpu_ratio",
    "iowait_ratio", "cpu_psi_ratio", "io_psi_ratio", "disk_read_bytes_s", "disk_write_bytes_s",
    "nic_rx_bytes_s", "nic_tx_bytes_s", "pending_gpus", "job_memory_bytes",
)  # fmt: skip
PLACES = {name: place for place, name in enumerate(NAMES)}
# Values of a table: six hours of 16 GPUs at 10 s and 45 columns are 1.6 million.
MAX_VALUES = 2**21
MAX_DECIMALS = 6
RAW = 255  # in place of decimals: the numbers are the bits of doubles
EXACT = 2**53  # whole numbers up to it are exact as doubles
PLANES = (1, 2, 4, 8)  # bytes of a number
TABLES = ("windows", "host")

HEAD = struct.Struct("<4sI")  # MAGIC, bytes of the JSON
TABLE = struct.Struct("<HIB")  # columns, rows, planes
COLUMN = struct.Struct("<BBqQ")  # place in NAMES, decimals, base, step
_DOUBLE = struct.Struct("<d")
_WORD = struct.Struct("<Q")


class TooManyError(WireError):
    """A table of more values than a hub takes at once: the batch is to be split."""


class Column(NamedTuple):
    """One column: a value is (base + step x (number - 1)) / 10^decimals; number 0: not read."""

    place: int
    decimals: int
    base: int
    step: int
    numbers: Sequence[int]


def pack(batch: Batch) -> bytes:
    """The batch in packed form, the same bytes for the same batch.

    Raises ValueError for NaN or infinity, TooManyError.
    """
    rest = {name: value for name, value in vars(batch).items() if name not in TABLES}
    text = json.dumps(rest, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    tables = (_packed(getattr(batch, name)) for name in TABLES)
    return zlib.compress(b"".join((HEAD.pack(MAGIC, len(text)), text, *tables)), 6)


def unpack(content: bytes, decode: Callable[[bytes], Any] = json.loads) -> Dict[str, Any]:
    """What the inflated bytes say, as the JSON of a batch would say it: for `wire.parse`.

    Columns that this version does not know are left out. Raises WireError.
    """
    text, place = rest_of(content)
    try:
        given = decode(text)
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError("", "not JSON: %s" % error) from error
    if not isinstance(given, dict):
        raise WireError("", "the packed batch says no object")
    for name in TABLES:
        given[name], place = _unpacked(content, place)
    if place != len(content):
        raise WireError("", "something follows the packed batch")
    return given


def rest_of(content: bytes) -> Tuple[bytes, int]:
    """The JSON of all but the columns, and where the first table begins. Raises WireError."""
    if len(content) < HEAD.size:
        raise WireError("", "no packed batch: it has %d bytes" % len(content))
    magic, length = HEAD.unpack_from(content)
    place = HEAD.size + length
    if magic != MAGIC or place > len(content):
        raise WireError("", "no packed batch: its head is wrong")
    return content[HEAD.size : place], place


def table_at(content: bytes, place: int) -> Tuple[int, int, int, int]:
    """Columns, rows and planes of the table that begins there, and where it ends.

    Raises WireError for one that is cut off or holds too much.
    """
    if place + TABLE.size > len(content):
        raise WireError("", "the packed batch is cut off")
    columns, rows, planes = TABLE.unpack_from(content, place)
    end = place + TABLE.size + columns * (COLUMN.size + rows * planes)
    _check_size(columns, rows)
    if planes not in PLANES:
        raise WireError("", "a table has numbers of %d bytes" % planes)
    if end > len(content):
        raise WireError("", "the packed batch is cut off")
    return columns, rows, planes, end


def _check_size(columns: int, rows: int) -> None:
    if columns * rows > MAX_VALUES:
        raise TooManyError("", "a table has %d values, at most %d" % (columns * rows, MAX_VALUES))


def _packed(columns: Columns) -> bytes:
    """The table of these columns, all of one length."""
    packed = [_column(name, values) for name, values in columns.items()]
    rows = len(packed[0].numbers) if packed else 0
    _check_size(len(packed), rows)
    numbers = array("Q")
    for column in packed:
        numbers.extend(column.numbers)
    heads = [COLUMN.pack(*column[:4]) for column in packed]
    planes = _shuffled(numbers)
    return b"".join((TABLE.pack(len(packed), rows, len(planes)), *heads, *planes))


def _shuffled(numbers: "array[int]") -> List[bytes]:
    """The lowest byte of each number, the next of each, as many as the largest needs."""
    largest = max(numbers, default=0)
    count = next(count for count in PLANES if largest < 256**count)
    raw = _swapped(numbers).tobytes()
    return [raw[plane :: _WORD.size] for plane in range(count)]


def _unshuffled(planes: Sequence[bytes]) -> "array[int]":
    """The numbers of which these are the bytes."""
    raw = bytearray(len(planes[0]) * _WORD.size)
    for place, plane in enumerate(planes):
        raw[place :: _WORD.size] = plane
    return _swapped(array("Q", bytes(raw)))


def _swapped(numbers: "array[int]") -> "array[int]":
    """The same on a machine that has the lowest byte first; where it has it last, in the other
    order of bytes.
    """
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _column(name: str, values: Sequence[Any]) -> Column:
    decimals, whole = _scaled(values)
    counted = [number for number in whole if number is not None]
    base = min(counted, default=0)
    step = reduce(math.gcd, [number - base for number in counted], 0) or 1
    numbers = [0 if number is None else (number - base) // step + 1 for number in whole]
    return Column(PLACES[name], decimals, base, step, numbers)


def _scaled(values: Sequence[Any]) -> Tuple[int, Sequence[Optional[int]]]:
    """Whole numbers that give each value back when they are divided by the fewest powers of ten;
    with RAW the bits of the values.
    """
    read = [value for value in values if value is not None]
    decimals = _decimals(read)
    power = 10**decimals
    whole = [_bits(value) if decimals == RAW else round(value * power) for value in read]
    if len(read) == len(values):
        return decimals, whole
    rest = iter(whole)
    return decimals, [None if value is None else next(rest) for value in values]


def _decimals(values: Sequence[float]) -> int:
    """The fewest that give each value back; RAW where as many as there may be do not.

    Raises ValueError for NaN and infinity.
    """
    if not all(map(math.isfinite, values)):
        raise ValueError("a column holds a number that is not finite")
    largest = max(map(abs, values), default=0)
    if largest > EXACT:
        return RAW
    decimals = 0
    power = 1
    for value in values:
        while round(value * power) / power != value:
            decimals += 1
            power *= 10
            if decimals > MAX_DECIMALS or largest * power > EXACT:
                return RAW
    return decimals


def _bits(value: float) -> int:
    return int(_WORD.unpack(_DOUBLE.pack(value))[0]) - 2**63  # fits a signed base


def _unpacked(content: bytes, place: int) -> Tuple[Columns, int]:
    """The columns of the table that begins there, and where it ends."""
    count, rows, planes, end = table_at(content, place)
    first = place + TABLE.size
    shuffled = content[first + count * COLUMN.size : end]
    cells = count * rows
    numbers = _unshuffled([shuffled[at * cells : (at + 1) * cells] for at in range(planes)])
    columns: Columns = {}
    for at in range(count):
        head = COLUMN.unpack_from(content, first + at * COLUMN.size)
        if head[0] < len(NAMES):
            _add(columns, head, numbers[at * rows : (at + 1) * rows])
    return columns, end


def _add(columns: Columns, head: Tuple[int, int, int, int], numbers: Sequence[int]) -> None:
    place, decimals, base, step = head
    name = NAMES[place]
    if name in columns:
        raise WireError(name, "%s is there twice" % name)
    columns[name] = _values(Column(place, decimals, base, step, numbers))


def _values(column: Column) -> List[Any]:
    whole = [
        None if number == 0 else column.base + column.step * (number - 1)
        for number in column.numbers
    ]
    if column.decimals == RAW:
        return [None if number is None else _double(number) for number in whole]
    if column.decimals > MAX_DECIMALS or any(
        number is not None and abs(number) > EXACT for number in whole
    ):
        raise WireError(NAMES[column.place], "%s is no packed column" % NAMES[column.place])
    if column.decimals == 0:
        return whole
    power = 10**column.decimals
    return [None if number is None else number / power for number in whole]


def _double(number: int) -> float:
    if not -(2**63) <= number < 2**63:
        raise WireError("", "a packed number is no double")
    return float(_DOUBLE.unpack(_WORD.pack(number + 2**63))[0])

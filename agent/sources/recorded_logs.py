"""Recorded logs as readings: CSV of `nvidia-smi --query-gpu … -l`, and the agent's own recordings.
Files of any size.

A file is read twice: once for its facts (`scan`: GPUs, intervals, from when to when), once for its
readings.
"""

import codecs
import hashlib
import json
import logging
import re
import uuid as uuids
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache, partial
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from agent.errors import BadArgumentError
from agent.json_parts import object_of
from agent.readings import Event, GPUInfo, ProcessList, ProcessReading, Reading, SourceError
from agent.sources.nvidia_smi import smi_text

try:
    import zoneinfo
except ImportError:  # Python 3.8: UTC and fixed offsets only
    zoneinfo = None  # type: ignore[assignment]

SAME_ROUND_MS = 500  # rows of one round may be a little out of order
FACT_ROWS = 100  # of a GPU, in which each of its facts is looked for
FACTS = ("model", "memory_total_bytes", "power_limit_w", "sm_clock_max_hz", "persistence")
DEFAULT_INTERVAL_MS = 1000.0  # of a GPU that was read only once
log = logging.getLogger("agent.sources")

_STAMP = re.compile(r"(\d{4}[/-]\d{2}[/-]\d{2}[ T]\d{2}:\d{2})(?::(\d{2})(?:\.(\d+))?)?")
_NO_DIGIT = re.compile(r"\D")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")
_NAMES = uuids.UUID("0f3f2f7e-9a55-4c1c-8f0b-5f3b6f0a7a11")

Counts = Mapping[str, Optional[int]]  # processes by GPU; None: not read
Key = Union[str, int]  # a GPU as the file names it: by uuid, or by place


class LogError(SourceError):
    """The file can't be replayed; the text says which and why."""


class WrongOptionError(LogError, BadArgumentError):
    """--tz or --start is at fault, not the file."""


@dataclass(frozen=True)
class Options:
    """How to read a file: what it does not say itself."""

    node: str
    gpus: int = 1
    model: Optional[str] = None
    zone: str = "UTC"
    start_ms: Optional[int] = None


class Row(NamedTuple):
    """One line of a log: a reading of one GPU (None where facts alone are asked for), or the
    process counts at a window's end.
    """

    key: Key
    at_ms: int
    reading: Optional[Reading] = None
    gpu: Optional[GPUInfo] = None
    process_counts: Counts = {}


@dataclass(frozen=True)
class Log:
    """The facts of one file; times are shifted by `shift_ms` already."""

    path: Path
    options: Options
    digest: str
    gpus: Mapping[Key, GPUInfo]
    interval_ms: Mapping[str, float]  # by uuid: the median
    first_ms: int
    last_ms: int
    shift_ms: int
    round_step_ms: float

    def readings(self) -> Iterator[Tuple[str, Reading, Counts]]:
        """(uuid, reading, process counts) in the file's order; a row that goes back in its GPU's
        time is left out, and said.
        """
        newest: Dict[Key, int] = {}
        backward = 0
        for row in _rows(self.path, self.options, self.round_step_ms):
            if row.process_counts:
                yield "", self._shifted(row), self._by_uuid(row.process_counts)
            elif row.key not in self.gpus:
                continue
            elif row.at_ms > newest.get(row.key, -1):
                newest[row.key] = row.at_ms
                yield self.gpus[row.key].uuid, self._shifted(row), {}
            else:
                backward += row.at_ms < newest[row.key]
        if backward:
            log.warning("rows that go back in time left out file=%s rows=%d", self.path, backward)

    def _shifted(self, row: Row) -> Reading:
        reading = row.reading or Reading(row.at_ms)
        if not self.shift_ms:
            return reading
        return replace(reading, at_ms=row.at_ms + self.shift_ms)

    def _by_uuid(self, counts: Counts) -> Counts:
        return {self.gpus[key].uuid: count for key, count in counts.items() if key in self.gpus}


def scan(path: Path, options: Options) -> Log:
    """The facts of the file. Raises LogError."""
    try:
        return _log(path, options)
    except OSError as error:
        raise LogError("%s can't be read: %s" % (path, error.strerror or error)) from error


def zone(name: str) -> tzinfo:
    """The zone by name or offset. Raises WrongOptionError."""
    match = _OFFSET.fullmatch(name)
    try:
        if match is not None:
            ahead = timedelta(hours=int(match.group(2)), minutes=int(match.group(3)))
            return timezone(-ahead if match.group(1) == "-" else ahead)
        if name.upper() in ("UTC", "Z", "GMT"):
            return timezone.utc
        if zoneinfo is not None:
            return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise WrongOptionError(
            "--tz is %r, expected UTC, +05:30 or a zone such as Europe/Berlin" % name
        ) from error
    raise WrongOptionError(
        "--tz is %r: before Python 3.9 only UTC and offsets such as +05:30 are known" % name
    )


def moment_ms(text: str, name: str = "UTC") -> int:
    """Milliseconds of an ISO time; without an offset of its own it is in the named zone.

    Raises WrongOptionError.
    """
    try:
        at = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
    except ValueError as error:
        raise WrongOptionError(
            "--start is %r, expected a time such as 2026-11-20T14:00:00Z" % text
        ) from error
    if at.tzinfo is None:
        at = at.replace(tzinfo=zone(name))
    return round(at.timestamp() * 1000)


class Stamps:
    """Times of one file in its zone, as milliseconds; the hour that autumn repeats is told apart by
    going back.
    """

    def __init__(self, where: tzinfo) -> None:
        # a log says the same minute over and over
        self._minute_ms = lru_cache(maxsize=1000)(partial(_minute_ms, where))
        self._newest = 0

    def parse(self, text: str) -> Optional[int]:
        """Milliseconds; None when the text is no time, such as that of a 13th month."""
        match = _STAMP.fullmatch(text)
        try:
            return None if match is None else self._at_ms(match)
        except ValueError:
            return None

    def _at_ms(self, match: "re.Match[str]") -> int:
        minute, seconds, digits = match.groups(default="0")
        rest_ms = int(seconds) * 1000 + int(digits.ljust(3, "0")[:3])
        at_ms = self._minute_ms(minute, 0) + rest_ms
        oldest_ms = self._newest - SAME_ROUND_MS
        if at_ms < oldest_ms:
            later_ms = self._minute_ms(minute, 1) + rest_ms
            at_ms = later_ms if later_ms >= oldest_ms else at_ms
        self._newest = max(self._newest, at_ms)
        return at_ms


def _minute_ms(where: tzinfo, text: str, fold: int) -> int:
    """Of the minute in the zone; fold 1: of one that comes twice the second."""
    year, month, day, hour, minute = map(int, _NO_DIGIT.split(text))
    at = datetime(year, month, day, hour, minute, tzinfo=where, fold=fold)
    return round(at.timestamp()) * 1000


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _lines(path: Path) -> Iterator[str]:
    """The file's lines; PowerShell writes UTF-16."""
    with open(path, "rb") as handle:
        is_wide = handle.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    with open(path, encoding="utf-16" if is_wide else "utf-8-sig", errors="replace") as text:
        for line in text:
            if line.strip():
                yield line


def _rows(
    path: Path, options: Options, round_step_ms: float, *, facts_only: bool = False
) -> Iterator[Row]:
    """The file's rows: with their GPUs and bare times, or with their readings and no GPUs (each is
    work a big log feels).
    """
    lines = _lines(path)
    first = next(lines, "")
    if first.lstrip().startswith("{"):
        return _recorded_rows(path, first, lines)
    places = _Places(path, options.gpus, round_step_ms)
    where = zone(options.zone)
    return _csv_rows(path, chain([first], lines), where, places, facts_only=facts_only)


def _csv_rows(
    path: Path, lines: Iterator[str], where: tzinfo, places: "_Places", *, facts_only: bool
) -> Iterator[Row]:
    stamps = Stamps(where)
    counts: "Counter[Key]" = Counter()
    for row in _table_rows(path, lines):
        at_ms = stamps.parse(row.cells["timestamp"])
        if at_ms is None:
            continue
        index = smi_text.csv_index(row)
        key: Key = smi_text.csv_uuid(row) or (index if index is not None else places.next(at_ms))
        counts[key] += 1
        if not facts_only:
            yield Row(key, at_ms, smi_text.csv_reading(row, at_ms=at_ms))
        else:
            place = key if isinstance(key, int) else index
            is_asked = counts[key] <= FACT_ROWS
            gpu = smi_text.csv_gpu(row, uuid=str(key), index=place) if is_asked else None
            yield Row(key, at_ms, gpu=gpu)


def _table_rows(path: Path, lines: Iterator[str]) -> Iterator[smi_text.Row]:
    """What follows the first header, without what is no row."""
    header = next(filter(smi_text.is_header, lines), None)
    if header is None:
        raise LogError(
            "%s is neither a CSV of nvidia-smi --query-gpu with its header nor a recording of this"
            " agent" % path
        )
    columns = smi_text.Table(header)
    if "timestamp" not in columns.names:
        raise LogError("%s has no timestamp column: record it with --query-gpu=timestamp,…" % path)
    yield from filter(None, map(columns.row, lines))


@dataclass
class _Places:
    """Rows that name no GPU: they cycle through the GPUs, a new round where the time steps."""

    path: Path
    count: int
    step_ms: float
    place: int = -1
    newest_ms: int = 0

    def next(self, at_ms: int) -> int:
        is_new_round = at_ms - self.newest_ms > self.step_ms / 2
        self.place = 0 if is_new_round or self.count == 1 else self.place + 1
        self.newest_ms = at_ms
        if self.place >= self.count:
            raise LogError(
                "%s has more than %d rows at one time and names no GPU: say how many with --gpus"
                % (self.path, self.count)
            )
        return self.place


def _round_step_ms(path: Path, options: Options) -> float:
    """How far the time steps from round to round; rows of one round lie much closer."""
    if options.gpus == 1:
        return 0.0
    counts: "Counter[int]" = Counter()
    newest: Optional[int] = None
    for row in _rows(path, replace(options, gpus=1), 0.0, facts_only=True):
        if not isinstance(row.key, int):
            return 0.0
        if newest is not None:
            counts[row.at_ms - newest] += 1
        newest = row.at_ms
    return _quantile(counts, 1 - 0.5 / options.gpus) or 0.0


def _recorded_rows(path: Path, first: str, lines: Iterator[str]) -> Iterator[Row]:
    gpus: Dict[str, GPUInfo] = {}
    try:
        if json.loads(first).get("fleetwatch_recording") != 1:
            raise LogError("%s is a recording of a newer agent" % path)
        for line in lines:
            item = object_of(line)
            if "gpus" in item:
                gpus.update((gpu["uuid"], GPUInfo(**gpu)) for gpu in item["gpus"])
            elif "process_counts" in item:
                yield Row("", item["end_ms"], process_counts=item["process_counts"])
            elif "reading" in item:
                uuid = item["uuid"]
                reading = _recorded(item["reading"])
                yield Row(uuid, reading.at_ms, reading, gpus.get(uuid))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LogError("%s is damaged: %s" % (path, error)) from error


def _recorded(item: Mapping[str, Any]) -> Reading:
    reading = Reading(**item)
    return replace(reading, util_samples=[(stamp, value) for stamp, value in reading.util_samples])


@dataclass
class _Track:
    """What the rows of one GPU said: which it is, and how far apart they are."""

    gpu: GPUInfo
    newest_ms: int
    gaps: "Counter[int]" = field(default_factory=Counter)

    @property
    def is_crowded(self) -> bool:
        """Whether most rows are of one time with the one before."""
        return self.gaps[0] * 2 > sum(self.gaps.values())


def _log(path: Path, options: Options) -> Log:
    step_ms = _round_step_ms(path, options)
    tracks = _tracks(path, _rows(path, options, step_ms, facts_only=True))
    first_ms = _first_ms(_rows(path, options, step_ms, facts_only=True), len(tracks))
    shift_ms = 0 if options.start_ms is None else options.start_ms - first_ms
    intervals = _intervals_ms(tracks)
    last_ms = max(track.newest_ms + round(intervals[key]) for key, track in tracks.items())
    digest = _digest(path)
    gpus = {key: _named(track.gpu, key, options, digest) for key, track in tracks.items()}
    return Log(
        path,
        options,
        digest,
        gpus,
        {gpus[key].uuid: interval for key, interval in intervals.items()},
        first_ms + shift_ms,
        last_ms + shift_ms,
        shift_ms,
        step_ms,
    )


def _first_ms(rows: Iterator[Row], gpus: int) -> int:
    """Of the first rows, enough to have seen the first round of so many GPUs."""
    times_ms = (row.at_ms for row in rows if not row.process_counts)
    return min(islice(times_ms, 2 * gpus))


def _intervals_ms(tracks: Mapping[Key, _Track]) -> Dict[Key, float]:
    """Of each GPU the median; the shortest of the others' for one that was read only once."""
    medians = {key: _quantile(track.gaps, 0.5) for key, track in tracks.items()}
    usual = min(filter(None, medians.values()), default=DEFAULT_INTERVAL_MS)
    return {key: median or usual for key, median in medians.items()}


def _tracks(path: Path, rows: Iterator[Row]) -> Dict[Key, _Track]:
    """By GPU, from the first row on that says anything of it."""
    tracks: Dict[Key, _Track] = {}
    for row in rows:
        track = tracks.get(row.key)
        if track is not None:
            track.gaps[row.at_ms - track.newest_ms] += 1
            track.newest_ms = max(track.newest_ms, row.at_ms)
            track.gpu = track.gpu if row.gpu is None else _filled(track.gpu, row.gpu)
        elif row.gpu is not None:
            tracks[row.key] = _Track(row.gpu, row.at_ms)
    if not tracks:
        raise LogError("%s holds no reading" % path)
    if any(track.is_crowded for track in tracks.values()):
        raise LogError(
            "%s has several rows at one time and names no GPU: say how many with --gpus" % path
        )
    return tracks


def _filled(gpu: GPUInfo, again: GPUInfo) -> GPUInfo:
    """The first that was read of each fact: a lost GPU's `[N/A]` forgets nothing."""
    unread = {name: why for name, why in gpu.unread.items() if name in again.unread}
    missing = {name: getattr(again, name) for name in FACTS if getattr(gpu, name) is None}
    return replace(gpu, unread=unread, **missing)


def _named(gpu: GPUInfo, key: Key, options: Options, digest: str) -> GPUInfo:
    """The GPU under the uuid that node, file and its name in the file always give: a log sent for
    two nodes is two GPUs.
    """
    uuid = "GPU-%s" % uuids.uuid5(_NAMES, "%s/%s/%s" % (options.node, digest, key))
    return replace(gpu, uuid=uuid, model=options.model or gpu.model)


def _quantile(counts: Mapping[int, int], share: float) -> Optional[float]:
    """The value that share of the positive ones do not exceed; None when there is none."""
    values = sorted(value for value in counts if value > 0)
    passed = list(accumulate(counts[value] for value in values))
    return float(values[bisect_left(passed, share * passed[-1])]) if values else None


class ReplaySource:
    """A log played at the speed it was recorded, beginning now: a Source for `run --source
    replay:FILE`.
    """

    name = "replay"

    def __init__(self, path: Path, *, node: str, start_ms: int) -> None:
        self._log = scan(path, Options(node=node, start_ms=start_ms))
        self._rows = self._log.readings()
        self._waiting: Dict[str, List[Reading]] = {}
        self._next = next(self._rows, None)
        self._counts: Counts = {}

    def driver(self) -> Optional[str]:
        """Not the recorded machine's concern any more."""
        return None

    def gpus(self) -> List[GPUInfo]:
        """The file's GPUs."""
        return list(self._log.gpus.values())

    def read(self, uuid: str, now_ms: int) -> Optional[Reading]:
        """The next reading that is due; None after the last."""
        while self._next is not None and self._next[1].at_ms <= now_ms:
            key, reading, counts = self._next
            if counts:
                self._counts = counts
            else:
                self._waiting.setdefault(key, []).append(reading)
            self._next = next(self._rows, None)
        waiting = self._waiting.get(uuid)
        return waiting.pop(0) if waiting else None

    def processes(self, uuid: str) -> ProcessList:
        """As many as were recorded, without their ids; None where none were."""
        count = self._counts.get(uuid)
        return None if count is None else [ProcessReading(0)] * count

    def events(self, now_ms: int) -> List[Event]:
        """None were recorded."""
        return []

    def close(self) -> None:
        """Nothing is held."""

"""The batch format v1: what the agent sends and the hub accepts, frozen by golden files.

Columnar JSON. Every key but the required ones may be absent or null: not read.
Unknown keys are kept where they are and never an error. Standard library only:
the hub imports this module too.
"""

import gzip
import json
import math
import re
from dataclasses import dataclass, field, fields
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from agent import wire_values
from agent.wire_values import (
    as_boolean,
    as_integer,
    as_integers,
    as_list,
    as_object,
    as_text,
    check_counts,
    check_distinct,
    check_length,
    check_position,
    check_texts,
    is_clean,
    wrong,
)

VERSION = 1
MAX_SPAN_MS = 6 * 3_600_000
MAX_BYTES = 8 * 1024 * 1024
MIN_WINDOW_S = 1
MAX_WINDOW_S = 300
MAX_TEXT = 400
MAX_WHY = 300  # characters of why a job source does not answer
MAX_LIST = 4096
MAX_GPUS = 256  # of a batch, MIG instances included: 16 GPUs of seven instances are 128
MAX_LABELS = 64
# Keys that this version does not know are kept as they came and read by nobody: more of them than a
# newer agent will ever add.
MAX_UNKNOWN = 64  # in one object
MAX_UNKNOWN_EACH = 8  # on average in a list
MAX_UNKNOWN_BYTES = MAX_BYTES // 4  # of one object or list, as JSON
# the year 3000: far from where calendars overflow, also after a clock correction
MAX_TIME_MS = 32_503_680_000_000
MAX_SEQUENCE = 2**62
MAX_COUNT = 2**31 - 1
MAX_BYTE_COUNT = 2**62
MAX_AMOUNT = 1e18  # of what nobody reads: as much as a JSON column and a page take
MIN_CELSIUS = -273.15
MAX_CELSIUS = 1000.0
RATIO_SLACK = 0.001  # rounding beyond 0 or 1: clamped; more than that is no ratio

# Shares of time or of capacity, 0 to 1.
RATIO_COLUMNS = (
    "util_mean", "util_min", "util_max", "util_p5", "util_p10", "util_p50", "util_p90",
    "util_zero_fraction",
    "util_low_fraction", "util_high_fraction", "spin_fraction", "memory_util_mean",
    "gr_engine_active", "sm_active",
    "sm_active_max", "sm_occupancy", "tensor_active", "dram_active", "fp64_active", "fp32_active",
    "fp16_active",
    "throttle_thermal_ratio", "throttle_power_ratio", "encoder_ratio", "decoder_ratio",
    "jpeg_ratio", "ofa_ratio",
    "process_sm_ratio", "job_main_thread_ratio",
)  # fmt: skip
# Counts, bytes, watts, ...: not negative, and no more than LARGEST.
AMOUNT_COLUMNS = (
    "util_dips", "util_longest_low_s", "util_cycle_s", "util_cycle_cv", "memory_used_bytes",
    "memory_reserved_bytes",
    "power_w", "power_min_w", "power_max_w", "energy_j", "pcie_rx_bytes_s", "pcie_tx_bytes_s",
    "nvlink_rx_bytes_s",
    "nvlink_tx_bytes_s", "sm_clock_hz", "sm_clock_max_hz", "ecc_uncorrected", "process_count",
    "job_cpu_ratio",
    "job_io_read_bytes_s", "job_cores", "job_workers",
)  # fmt: skip
SIGNED_COLUMNS = ("temperature_c", "memory_temperature_c")
# Far above what a board, a host or a counter can mean in one window, and above what broken sensors
# are known to say (NVML's 32 bits of milliwatts are 4.3e6 W), but not so much that sums and
# quotients overflow. By the end of the name, the first that fits; "" is a count.
LARGEST = (
    ("_w", 1e7),
    ("_j", 1e10),
    ("_hz", 1e12),
    ("_bytes", 1e15),
    ("_bytes_s", 1e15),
    ("_s", 1e6),
    ("pending_gpus", 1e6),
    ("", 1e12),
)
MAX_AGENT_AMOUNT = 1e15  # bytes, seconds, batches: of what the agent says of itself
AGENT_AMOUNTS = (
    "dropped_windows", "spool_bytes", "set_aside_batches", "passed_over_batches", "cpu_s",
    "rss_bytes", "poll_ms_p95", "clock_steps",
)  # fmt: skip
WINDOW_COLUMNS = RATIO_COLUMNS + AMOUNT_COLUMNS + SIGNED_COLUMNS
HOST_COLUMNS = (
    "cpu_ratio", "iowait_ratio", "memory_used_bytes", "cpu_psi_ratio", "io_psi_ratio",
    "disk_read_bytes_s",
    "disk_write_bytes_s", "nic_rx_bytes_s", "nic_tx_bytes_s", "pending_gpus",
)  # fmt: skip
EVENT_KINDS = (
    "xid", "gpu_lost", "gpu_ok", "recovery_action", "driver_missing", "driver_mismatch",
    "driver_ok", "nvml_stuck",
    "drained", "resumed", "action_result",
)  # fmt: skip
JOB_KINDS = ("batch", "interactive", "service")
# A label that a process's environment tells -> the one by which a scheduler's books tell the same:
# it counts before the other.
BOOKED_LABELS = {
    "slurm_array_job_id": "array_job",
    "slurm_array_task_id": "array_task",
    "slurm_job_partition": "partition",
    "slurm_job_qos": "qos",
}

# Of each object its texts, with the most characters they hold, and its counts, with the most.
TEXTS: Mapping[str, Mapping[str, int]] = {
    "agent": {"version": 64, "driver": 64, "source": 64},
    "gpus": {"model": 100, "parent_uuid": 96, "mig_profile": 32},
    "jobs": {
        "scheduler": 64,
        "cluster": 128,
        "id": 200,
        "name": 300,
        "user": 128,
        "account": 128,
        "kind": 64,
        "state": 32,
    },
    "allocations": {"source": 32},
    "processes": {"user": 128, "name": 300, "state": 8},
    "events": {"text": 300},
    "sources": {"why": MAX_WHY},
}
COUNTS: Mapping[str, Mapping[str, int]] = {
    "gpus": {"index": MAX_COUNT, "memory_total_bytes": MAX_BYTE_COUNT, "sm_count": MAX_COUNT},
    "jobs": {
        "submit_ms": MAX_TIME_MS,
        "start_ms": MAX_TIME_MS,
        "end_ms": MAX_TIME_MS,
        "restarts": MAX_COUNT,
    },
    "allocations": {"start_ms": MAX_TIME_MS, "end_ms": MAX_TIME_MS},
    "processes": {"started_ms": MAX_TIME_MS, "memory_bytes": MAX_BYTE_COUNT},
    "sources": {"seen_ms": MAX_TIME_MS},
}
# What else is read of it, or was ever sent.
_OTHERS = {
    "agent": ("last_refusal", "stopping", *AGENT_AMOUNTS),
    "gpus": ("uuid", "power_limit_w", "persistence", "unread"),
    "jobs": ("key", "labels"),
    "allocations": ("gpu", "job", "share"),
    "processes": ("gpu", "job", "pid"),
    "events": ("gpu", "at_ms", "kind", "code"),
    "sources": ("kind", "ok"),
}

# NVML's form: of a GPU, of a MIG instance, and of one as drivers before R470 named it.
# https://docs.nvidia.com/deploy/nvml-api
_UUID = re.compile(
    r"(GPU|MIG|MIG-GPU)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(/[0-9]+/[0-9]+)?",
    re.IGNORECASE | re.ASCII,
)

Columns = Dict[str, List[Any]]
Item = Dict[str, Any]
WireError = wire_values.WireError
Positions = Mapping[str, int]  # length of each list into which others point
Check = Callable[[Item, Positions], Item]


@dataclass(frozen=True)
class Batch:
    """One node's windows and what was known with them; the fields are the JSON's keys."""

    node: str
    boot_id: str
    boot_start_ms: int
    sequence: int
    window_s: int
    gpus: List[Item]
    windows: Columns
    version: int = VERSION
    agent: Item = field(default_factory=dict)
    node_labels: Item = field(default_factory=dict)
    sources: List[Item] = field(default_factory=list)
    host: Columns = field(default_factory=dict)
    jobs: List[Item] = field(default_factory=list)
    allocations: List[Item] = field(default_factory=list)
    processes: List[Item] = field(default_factory=list)
    events: List[Item] = field(default_factory=list)

    @property
    def start_ms(self) -> Optional[int]:
        """Start of the first window; None when there is no window."""
        return min(self.windows["start_ms"], default=None)

    @property
    def end_ms(self) -> Optional[int]:
        """End of the last window; None when there is no window."""
        return (
            max(self.windows["start_ms"]) + self.window_s * 1000
            if self.windows["start_ms"]
            else None
        )


class Work(NamedTuple):
    """What a batch says of jobs and of who holds which GPU, checked."""

    jobs: List[Item]
    allocations: List[Item]


def encode(batch: Batch) -> bytes:
    """The batch as JSON, the same bytes for the same batch.

    Raises ValueError for NaN or infinity.
    """
    keys = {item.name: getattr(batch, item.name) for item in fields(batch)}
    return json.dumps(keys, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode(
        "utf-8"
    )


def compress(body: bytes) -> bytes:
    """The body as gzip, the same bytes for the same body (no time stamp)."""
    return gzip.compress(body, compresslevel=6, mtime=0)


def decode(body: bytes) -> Batch:
    """The batch in JSON bytes. Raises WireError when it is no acceptable batch."""
    try:
        return parse(json.loads(body))
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError("", "not JSON: %s" % error) from error


def parse(mapping: Any) -> Batch:
    """The batch in a decoded JSON object, checked: the door behind which everything may be
    believed.

    Null and absent lists come back empty; a column that is null or unknown is left out; ratios that
    rounding put up to RATIO_SLACK outside 0 to 1 are clamped. Raises WireError with the field and
    what was expected.
    """
    top = as_object("", mapping)
    _bound_unknown("batch", [top], _BATCH_KEYS)
    as_integer("version", top.get("version"), VERSION, VERSION)
    window_s = as_integer("window_s", top.get("window_s"), MIN_WINDOW_S, MAX_WINDOW_S)
    gpus = _items("gpus", top.get("gpus"), _gpu, most=MAX_GPUS)
    if top.get("gpus") is None:
        raise wrong("gpus", "is required")
    check_distinct("gpus", [gpu["uuid"] for gpu in gpus])
    windows = _windows(top.get("windows"), window_s=window_s, gpu_count=len(gpus))
    labels = _labels("node_labels", top.get("node_labels"))
    work = parse_work(top, gpu_count=len(gpus))
    return parse_rest(
        top, gpus=gpus, windows=windows, host=_host(top.get("host")), node_labels=labels, work=work
    )


def parse_work(top: Item, *, gpu_count: int) -> Work:
    """What a decoded JSON object says of jobs and of who holds which GPU. Raises WireError."""
    jobs = _items("jobs", top.get("jobs"), _job)
    check_distinct("jobs", [job["key"] for job in jobs])
    return Work(
        jobs,
        _items(
            "allocations", top.get("allocations"), _allocation, {"gpu": gpu_count, "job": len(jobs)}
        ),
    )


def parse_rest(
    top: Item, *, gpus: List[Item], windows: Columns, host: Columns, node_labels: Item, work: Work
) -> Batch:
    """The batch in a decoded JSON object of which these parts, version and window_s were checked
    already. Raises WireError.
    """
    positions = {"gpu": len(gpus), "job": len(work.jobs)}
    return Batch(
        node=as_text("node", top.get("node"), 253, required=True),
        boot_id=as_text("boot_id", top.get("boot_id"), 128, required=True),
        boot_start_ms=as_integer("boot_start_ms", top.get("boot_start_ms"), 0, MAX_TIME_MS),
        sequence=as_integer("sequence", top.get("sequence"), 0, MAX_SEQUENCE),
        window_s=top["window_s"],
        gpus=gpus,
        windows=windows,
        agent=_agent(top.get("agent")),
        node_labels=node_labels,
        sources=_items("sources", top.get("sources"), _source),
        host=host,
        jobs=work.jobs,
        allocations=work.allocations,
        processes=_items("processes", top.get("processes"), _process, positions),
        events=_items("events", top.get("events"), _event, positions),
    )


def _windows(value: Any, *, window_s: int, gpu_count: int) -> Columns:
    given = as_object("windows", value)
    _bound_unknown("windows", [given], _WINDOW_KEYS)
    columns: Columns = {
        "gpu": as_integers("windows.gpu", given.get("gpu"), 0, gpu_count - 1),
        "start_ms": _starts("windows.start_ms", given.get("start_ms"), window_s),
        "observed_ms": as_integers(
            "windows.observed_ms", given.get("observed_ms"), 0, window_s * 1000
        ),
    }
    for name in ("start_ms", "observed_ms"):
        check_length("windows." + name, columns[name], columns["gpu"])
    return _add_columns(
        columns, given, room="windows", names=WINDOW_COLUMNS, length=len(columns["gpu"])
    )


def _host(value: Any) -> Columns:
    given = as_object("host", value) if value is not None else {}
    _bound_unknown("host", [given], _HOST_KEYS)
    if not given:
        return {}
    columns: Columns = {"start_ms": _starts("host.start_ms", given.get("start_ms"), MIN_WINDOW_S)}
    return _add_columns(
        columns, given, room="host", names=HOST_COLUMNS, length=len(columns["start_ms"])
    )


def _add_columns(
    columns: Columns, given: Item, *, room: str, names: Sequence[str], length: int
) -> Columns:
    for name in names:
        if given.get(name) is not None:
            field_name = room + "." + name
            column = as_list(field_name, given[name])
            if len(column) != length:
                raise wrong(field_name, "has %d values for %d windows" % (len(column), length))
            columns[name] = _numbers(field_name, column, name)
    return columns


def _numbers(field_name: str, column: List[Any], name: str) -> List[Any]:
    """The column of finite numbers and nulls within its kind's limits; in C, because the hub checks
    millions.
    """
    types = set(map(type, column))
    if not types <= _NUMBER_TYPES:
        raise wrong(field_name, "holds something that is neither a number nor null")
    values = [value for value in column if value is not None] if type(None) in types else column
    if not values:
        return column
    low, high = LIMITS[name]
    smallest = min(values)
    largest = max(values)
    if not (low <= smallest and largest <= high and _is_finite_sum(values)):
        raise wrong(
            field_name, "holds %r to %r, expected %g to %g" % (smallest, largest, low, high)
        )
    if name in RATIOS and (smallest < 0 or largest > 1):
        return [value if value is None else min(1, max(0, value)) for value in column]
    return column


def _is_finite_sum(values: Sequence[float]) -> bool:
    """False when NaN hides among them: min and max can step over it, a sum cannot."""
    try:
        return math.isfinite(sum(values))
    except OverflowError:
        return False


def _limits(name: str) -> Tuple[float, float]:
    """The least and the most that the column takes."""
    if name in RATIOS:
        return -RATIO_SLACK, 1 + RATIO_SLACK
    if name in SIGNED_COLUMNS:
        return MIN_CELSIUS, MAX_CELSIUS
    return 0, next(most for end, most in LARGEST if name.endswith(end))


def _starts(field_name: str, value: Any, window_s: int) -> List[int]:
    """Window starts that lie within MAX_SPAN_MS of each other, their windows' length included."""
    starts = as_integers(field_name, value, 0, MAX_TIME_MS)
    if starts and max(starts) + window_s * 1000 - min(starts) > MAX_SPAN_MS:
        raise wrong(field_name, "spans more than 6 hours")
    return starts


def _gpu(item: Item, _: Positions) -> Item:
    as_text("uuid", item.get("uuid"), 96, required=True)
    if item.get("power_limit_w") is not None:
        _numbers("power_limit_w", [item["power_limit_w"]], "power_w")
    as_boolean("persistence", item.get("persistence"))
    names = {name: canonical_uuid(item[name]) for name in ("uuid", "parent_uuid") if item.get(name)}
    return {**item, **names, "unread": _labels("unread", item.get("unread"))}


def canonical_uuid(uuid: str) -> str:
    """The UUID as NVML writes it (`GPU-` or `MIG-` and lower-case hex), however it was written; any
    other name as it is.
    """
    if not _UUID.fullmatch(uuid):
        return uuid
    return uuid.lower().replace("gpu-", "GPU-").replace("mig-", "MIG-")


def _job(item: Item, _: Positions) -> Item:
    as_text("key", item.get("key"), 400, required=True)
    if "~" in item["key"]:
        raise wrong("key", "has a ~, by which the hub tells jobs of one key apart")
    kind = item.get("kind") if item.get("kind") in JOB_KINDS else "batch"
    return dict(item, kind=kind, labels=_labels("labels", item.get("labels")))


def _allocation(item: Item, positions: Positions) -> Item:
    check_position("gpu", item.get("gpu"), positions["gpu"])
    check_position("job", item.get("job"), positions["job"])
    start_ms = item.get("start_ms")
    end_ms = item.get("end_ms")
    share = item.get("share")
    if start_ms is not None and end_ms is not None and end_ms < start_ms:
        raise wrong("end_ms", "is before its start_ms")
    if share is not None and not (type(share) in (int, float) and 0 < share <= 1 + RATIO_SLACK):
        raise wrong("share", "is not above 0 and at most 1")
    return item if share is None else dict(item, share=min(1.0, float(share)))


def _process(item: Item, positions: Positions) -> Item:
    check_position("gpu", item.get("gpu"), positions["gpu"])
    if item.get("job") is not None:
        check_position("job", item["job"], positions["job"])
    as_integer("pid", item.get("pid"), 0, MAX_BYTE_COUNT)
    return item


def _event(item: Item, positions: Positions) -> Item:
    """An event of any kind: a newer agent's kinds are no error."""
    if item.get("gpu") is not None:
        check_position("gpu", item["gpu"], positions["gpu"])
    as_integer("at_ms", item.get("at_ms"), 0, MAX_TIME_MS)
    as_text("kind", item.get("kind"), 32, required=True)
    if item.get("code") is not None:
        as_integer("code", item["code"], -MAX_COUNT, MAX_COUNT)
    return item


def _source(item: Item, _: Positions) -> Item:
    """A source that does not say it is ok is not ok; `why` is for people."""
    as_text("kind", item.get("kind"), 32, required=True)
    return dict(item, ok=bool(as_boolean("ok", item.get("ok"))))


def _agent(value: Any) -> Item:
    """What the agent says of itself; the hub keeps it as JSON, so what it could not store is left
    out.
    """
    given = as_object("agent", value) if value is not None else {}
    _bound_unknown("agent", [given], _KNOWN["agent"])
    try:
        check_texts(given, TEXTS["agent"])
    except WireError as error:
        raise WireError("agent." + error.field, "agent.%s" % error) from None
    for name in AGENT_AMOUNTS:
        value = given.get(name)
        if value is not None and not (
            type(value) in (int, float) and 0 <= value <= MAX_AGENT_AMOUNT
        ):
            raise WireError(
                "agent." + name,
                "agent.%s is %.60r, expected a number from 0 to %g"
                % (name, value, MAX_AGENT_AMOUNT),
            )
    return {key: item for key, item in given.items() if _is_storable(key) and _is_storable(item)}


def _labels(place: str, value: Any) -> Item:
    """Names and plain values; {} for null."""
    given = as_object(place, value) if value is not None else {}
    if len(given) > MAX_LABELS:
        raise wrong(place, "has more than %d entries" % MAX_LABELS)
    for key, item in given.items():
        if not (_is_storable(key) and _is_storable(item)):
            raise wrong(
                place, "holds a name or value that is no plain short text, number or boolean"
            )
    return dict(given)


def _is_storable(value: Any) -> bool:
    """True for what a Postgres JSON column takes and a page can show: no nesting, no NUL, no half
    surrogate.
    """
    if isinstance(value, str):
        return len(value) <= MAX_TEXT and is_clean(value)
    return (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, (int, float)) and abs(value) <= MAX_AMOUNT)
    )


def _items(
    place: str, value: Any, check: Check, positions: Mapping[str, int] = {}, *, most: int = MAX_LIST
) -> List[Item]:
    """The checked items; each check speaks of its own fields, the place is put before them only
    when something is wrong.
    """
    items = as_list(place, value) if value is not None else []
    if len(items) > most:
        raise wrong(place, "has %d entries, at most %d" % (len(items), most))
    _bound_unknown(place, [item for item in items if isinstance(item, dict)], _KNOWN[place])
    return [
        _checked(place, "%s[%d]" % (place, number), item, check, positions)
        for number, item in enumerate(items)
    ]


def _checked(place: str, where: str, value: Any, check: Check, positions: Positions) -> Item:
    item = as_object(where, value)
    try:
        check_texts(item, TEXTS[place])
        check_counts(item, COUNTS.get(place, {}))
        return check(item, positions)
    except WireError as error:
        raise WireError("%s.%s" % (where, error.field), "%s.%s" % (where, error)) from None


def _bound_unknown(place: str, items: Sequence[Item], keys: AbstractSet[str]) -> None:
    """Raises WireError where the items hold more of what nobody reads than is kept."""
    unknown = [(key, item[key]) for item in items for key in item.keys() - keys]
    allowed = max(MAX_UNKNOWN, MAX_UNKNOWN_EACH * len(items))
    if len(unknown) > allowed:
        raise wrong(place, "has %d keys that are not known, at most %d" % (len(unknown), allowed))
    if unknown and _json_bytes(place, unknown) > MAX_UNKNOWN_BYTES:
        raise WireError(
            place, "the unknown keys of %s are larger than %d bytes" % (place, MAX_UNKNOWN_BYTES)
        )


def _json_bytes(place: str, value: Any) -> int:
    try:
        return len(json.dumps(value))
    except RecursionError:
        raise wrong(place, "is nested too deeply") from None


_BATCH_KEYS = frozenset(item.name for item in fields(Batch))
_WINDOW_KEYS = frozenset(("gpu", "start_ms", "observed_ms", *WINDOW_COLUMNS))
_HOST_KEYS = frozenset(("start_ms", *HOST_COLUMNS))
_KNOWN = {
    place: frozenset((*texts, *COUNTS.get(place, ()), *_OTHERS[place]))
    for place, texts in TEXTS.items()
}
_NUMBER_TYPES = {int, float, type(None)}
# Of windows and of the host.
RATIOS = frozenset(RATIO_COLUMNS) | {name for name in HOST_COLUMNS if name.endswith("_ratio")}
LIMITS = {name: _limits(name) for name in WINDOW_COLUMNS + HOST_COLUMNS}

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
    Amount,
    Field,
    Flag,
    Labels,
    Position,
    Text,
    Whole,
    as_integers,
    as_list,
    as_object,
    check_distinct,
    check_length,
    is_storable,
    wrong,
)

VERSION = 1
MAX_SPAN_MS = 6 * 3_600_000
MAX_BYTES = 8 * 1024 * 1024
MIN_WINDOW_S = 1
MAX_WINDOW_S = 300
MAX_TEXT = wire_values.MAX_TEXT
MAX_WHY = 300  # characters of why a job source does not answer
MAX_LIST = 4096
MAX_GPUS = 256  # of a batch, MIG instances included: 16 GPUs of seven instances are 128
MAX_LABELS = wire_values.MAX_LABELS
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
MIN_CELSIUS = -273.15
MAX_CELSIUS = 1000.0
RATIO_SLACK = 0.001  # rounding beyond 0 or 1: clamped; more than that is no ratio

# Shares of time or of capacity, 0 to 1.
RATIO_COLUMNS = (
    "util_mean", "util_min", "util_max", "util_p5", "util_p10", "util_p50", "util_p90",
    "util_zero_fraction", "util_low_fraction", "util_high_fraction", "spin_fraction",
    "memory_util_mean", "gr_engine_active", "sm_active", "sm_active_max", "sm_occupancy",
    "tensor_active", "dram_active", "fp64_active", "fp32_active", "fp16_active",
    "throttle_thermal_ratio", "throttle_power_ratio", "encoder_ratio", "decoder_ratio",
    "jpeg_ratio", "ofa_ratio", "process_sm_ratio", "job_main_thread_ratio",
)  # fmt: skip
# Counts, bytes, watts, ...: not negative, and no more than LARGEST.
AMOUNT_COLUMNS = (
    "util_dips", "util_longest_low_s", "util_cycle_s", "util_cycle_cv", "memory_used_bytes",
    "memory_reserved_bytes", "power_w", "power_min_w", "power_max_w", "energy_j", "pcie_rx_bytes_s",
    "pcie_tx_bytes_s", "nvlink_rx_bytes_s", "nvlink_tx_bytes_s", "sm_clock_hz", "sm_clock_max_hz",
    "ecc_uncorrected", "process_count", "job_cpu_ratio", "job_io_read_bytes_s", "job_cores",
    "job_workers", "job_memory_bytes",
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
    "disk_read_bytes_s", "disk_write_bytes_s", "nic_rx_bytes_s", "nic_tx_bytes_s", "pending_gpus",
)  # fmt: skip
EVENT_KINDS = (
    "xid", "gpu_lost", "gpu_ok", "recovery_action", "driver_missing", "driver_mismatch",
    "driver_ok", "nvml_stuck", "drained", "resumed", "action_result",
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

# Of each object what is read of it, or was ever sent.
FIELDS: Mapping[str, Mapping[str, Field]] = {
    "agent": {
        "version": Text(64),
        "driver": Text(64),
        "source": Text(64),
        "last_refusal": Field(),
        "stopping": Field(),
        **{name: Amount(MAX_AGENT_AMOUNT) for name in AGENT_AMOUNTS},
    },
    "gpus": {
        "uuid": Text(96, is_required=True),
        "index": Whole(MAX_COUNT),
        "model": Text(100),
        "memory_total_bytes": Whole(MAX_BYTE_COUNT),
        "power_limit_w": Field(),
        "sm_count": Whole(MAX_COUNT),
        "parent_uuid": Text(96),
        "mig_profile": Text(32),
        "persistence": Flag(),
        "unread": Labels(),
    },
    "jobs": {
        "key": Text(400, is_required=True),
        "scheduler": Text(64),
        "cluster": Text(128),
        "id": Text(200),
        "name": Text(300),
        "user": Text(128),
        "account": Text(128),
        "kind": Text(64),
        "state": Text(32),
        "submit_ms": Whole(MAX_TIME_MS),
        "start_ms": Whole(MAX_TIME_MS),
        "end_ms": Whole(MAX_TIME_MS),
        "restarts": Whole(MAX_COUNT),
        "labels": Labels(),
    },
    "allocations": {
        "gpu": Field(),
        "job": Field(),
        "source": Text(32),
        "start_ms": Whole(MAX_TIME_MS),
        "end_ms": Whole(MAX_TIME_MS),
        "share": Field(),
    },
    "processes": {
        "gpu": Field(),
        "job": Field(),
        "pid": Whole(MAX_BYTE_COUNT, is_required=True),
        "user": Text(128),
        "name": Text(300),
        "state": Text(8),
        "started_ms": Whole(MAX_TIME_MS),
        "memory_bytes": Whole(MAX_BYTE_COUNT),
    },
    # of any kind: a newer agent's kinds are no error
    "events": {
        "gpu": Field(),
        "at_ms": Whole(MAX_TIME_MS, is_required=True),
        "kind": Text(32, is_required=True),
        "code": Whole(MAX_COUNT, -MAX_COUNT),
        "text": Text(300),
    },
    # one that does not say it is ok is not ok; `why` is for people
    "sources": {
        "kind": Text(32, is_required=True),
        "ok": Flag(is_required=True),
        "why": Text(MAX_WHY),
        "seen_ms": Whole(MAX_TIME_MS),
    },
}

# NVML's form: of a GPU, of a MIG instance, and of one as drivers before R470 named it.
# https://docs.nvidia.com/deploy/nvml-api
_UUID = re.compile(
    r"(GPU|MIG|MIG-GPU)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(/[0-9]+/[0-9]+)?",
    re.IGNORECASE | re.ASCII,
)

Columns = Dict[str, List[Any]]
Item = wire_values.Item
WireError = wire_values.WireError
# name, what checks the value, whether it is required
Checks = Sequence[Tuple[str, Callable[[str, Any], Any], bool]]


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
    text = json.dumps(vars(batch), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode("utf-8")


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
    _bound_unknown("batch", [top])
    Whole(VERSION, VERSION).check("version", top.get("version"))
    window_s = Whole(MAX_WINDOW_S, MIN_WINDOW_S).check("window_s", top.get("window_s"))
    gpus = _items("gpus", top, most=MAX_GPUS)
    if top.get("gpus") is None:
        raise wrong("gpus", "is required")
    check_distinct("gpus", [gpu["uuid"] for gpu in gpus])
    return parse_rest(
        top,
        gpus=gpus,
        windows=_windows(top.get("windows"), window_s=window_s, gpu_count=len(gpus)),
        node_labels=Labels().check("node_labels", top.get("node_labels")),
        work=parse_work(top, gpu_count=len(gpus)),
        host=_host(top.get("host")),
    )


def parse_work(top: Item, *, gpu_count: int) -> Work:
    """What a decoded JSON object says of jobs and of who holds which GPU. Raises WireError."""
    jobs = _items("jobs", top)
    check_distinct("jobs", [job["key"] for job in jobs])
    gpu = ("gpu", Position(gpu_count).check, True)
    job = ("job", Position(len(jobs)).check, True)
    return Work(jobs, _items("allocations", top, (gpu, job)))


def parse_rest(
    top: Item, *, gpus: List[Item], windows: Columns, host: Columns, node_labels: Item, work: Work
) -> Batch:
    """The batch in a decoded JSON object of which these parts, version and window_s were checked
    already. Raises WireError.
    """
    in_gpus = Position(len(gpus)).check
    in_jobs = Position(len(work.jobs)).check
    return Batch(
        **{name: field.check(name, top.get(name)) for name, field in _NAMES.items()},
        window_s=top["window_s"],
        gpus=gpus,
        windows=windows,
        agent=_agent(top.get("agent")),
        node_labels=node_labels,
        sources=_items("sources", top),
        host=host,
        jobs=work.jobs,
        allocations=work.allocations,
        processes=_items("processes", top, (("gpu", in_gpus, True), ("job", in_jobs, False))),
        events=_items("events", top, (("gpu", in_gpus, False),)),
    )


def _windows(value: Any, *, window_s: int, gpu_count: int) -> Columns:
    given = as_object("windows", value)
    _bound_unknown("windows", [given])
    observed = given.get("observed_ms")
    columns: Columns = {
        "gpu": as_integers("windows.gpu", given.get("gpu"), 0, gpu_count - 1),
        "start_ms": _starts("windows.start_ms", given.get("start_ms"), window_s),
        "observed_ms": as_integers("windows.observed_ms", observed, 0, window_s * 1000),
    }
    for name in ("start_ms", "observed_ms"):
        check_length("windows." + name, columns[name], len(columns["gpu"]))
    return {**columns, **_read_columns("windows", given, WINDOW_COLUMNS)}


def _host(value: Any) -> Columns:
    given = as_object("host", {} if value is None else value)
    _bound_unknown("host", [given])
    if not given:
        return {}
    starts = _starts("host.start_ms", given.get("start_ms"), MIN_WINDOW_S)
    return {"start_ms": starts, **_read_columns("host", given, HOST_COLUMNS)}


def _read_columns(room: str, given: Item, names: Sequence[str]) -> Columns:
    """Those of these columns that were read."""
    columns = {}
    for name in names:
        if given.get(name) is not None:
            place = room + "." + name
            check_length(place, as_list(place, given[name]), len(given["start_ms"]))
            columns[name] = as_numbers(place, given[name], name)
    return columns


def as_numbers(field_name: str, column: List[Any], name: str) -> List[Any]:
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


def canonical_uuid(uuid: str) -> str:
    """The UUID as NVML writes it (`GPU-` or `MIG-` and lower-case hex), however it was written; any
    other name as it is.
    """
    if not _UUID.fullmatch(uuid):
        return uuid
    return uuid.lower().replace("gpu-", "GPU-").replace("mig-", "MIG-")


def _gpu(item: Item) -> None:
    if item.get("power_limit_w") is not None:
        as_numbers("power_limit_w", [item["power_limit_w"]], "power_w")
    for name in ("uuid", "parent_uuid"):
        if item.get(name):
            item[name] = canonical_uuid(item[name])


def _job(item: Item) -> None:
    if "~" in item["key"]:
        raise wrong("key", "has a ~, by which the hub tells jobs of one key apart")
    if item.get("kind") not in JOB_KINDS:
        item["kind"] = "batch"


def _allocation(item: Item) -> None:
    start_ms = item.get("start_ms")
    end_ms = item.get("end_ms")
    share = item.get("share")
    if start_ms is not None and end_ms is not None and end_ms < start_ms:
        raise wrong("end_ms", "is before its start_ms")
    if share is None:
        return
    if not (type(share) in (int, float) and 0 < share <= 1 + RATIO_SLACK):
        raise wrong("share", "is not above 0 and at most 1")
    item["share"] = min(1.0, float(share))


def _agent(value: Any) -> Item:
    """What the agent says of itself; the hub keeps it as JSON, so what it could not store is left
    out.
    """
    given = as_object("agent", {} if value is None else value)
    _bound_unknown("agent", [given])
    checked = _checked("agent", "agent", given, _CHECKS["agent"])
    return {key: item for key, item in checked.items() if is_storable(key) and is_storable(item)}


def _items(place: str, top: Item, positions: Checks = (), *, most: int = MAX_LIST) -> List[Item]:
    """The checked items of the list, which point into others; none of null."""
    value = top.get(place)
    items = as_list(place, [] if value is None else value)
    if len(items) > most:
        raise wrong(place, "has %d entries, at most %d" % (len(items), most))
    _bound_unknown(place, [item for item in items if isinstance(item, dict)])
    checks = (*_CHECKS[place], *positions)
    return [
        _checked(place, "%s[%d]" % (place, number), item, checks)
        for number, item in enumerate(items)
    ]


def _checked(place: str, where: str, value: Any, checks: Checks) -> Item:
    """The item; each check speaks of its own field, where it lies is put before it only when
    something is wrong.
    """
    item = dict(as_object(where, value))
    try:
        for name, check, is_required in checks:
            given = item.get(name)
            if given is not None or is_required:
                kept = check(name, given)
                if kept is not given:
                    item[name] = kept
        if place in _RULES:
            _RULES[place](item)
    except WireError as error:
        raise WireError("%s.%s" % (where, error.field), "%s.%s" % (where, error)) from None
    return item


def _bound_unknown(place: str, items: Sequence[Item]) -> None:
    """Raises WireError where the items hold more of what nobody reads than is kept."""
    unknown = [(key, item[key]) for item in items for key in item.keys() - _KEYS[place]]
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


_NAMES: Mapping[str, Field] = {
    "node": Text(253, is_required=True),
    "boot_id": Text(128, is_required=True),
    "boot_start_ms": Whole(MAX_TIME_MS),
    "sequence": Whole(MAX_SEQUENCE),
}
# what of an item can't be said of one of its fields
_RULES: Mapping[str, Callable[[Item], None]] = {
    "gpus": _gpu,
    "jobs": _job,
    "allocations": _allocation,
}
# bound once, for the millions of items that a hub reads
_CHECKS: Mapping[str, Checks] = {
    place: [
        (name, field.check, field.is_required)
        for name, field in of_place.items()
        if type(field) is not Field
    ]
    for place, of_place in FIELDS.items()
}
_KEYS: Mapping[str, AbstractSet[str]] = {
    "batch": {item.name for item in fields(Batch)},
    "windows": {"gpu", "start_ms", "observed_ms", *WINDOW_COLUMNS},
    "host": {"start_ms", *HOST_COLUMNS},
    **{place: set(of_place) for place, of_place in FIELDS.items()},
}
_NUMBER_TYPES = {int, float, type(None)}
# Of windows and of the host.
RATIOS = frozenset(RATIO_COLUMNS) | {name for name in HOST_COLUMNS if name.endswith("_ratio")}
LIMITS = {name: _limits(name) for name in WINDOW_COLUMNS + HOST_COLUMNS}

"""Incidents in words: one message when it opens, one when it is over. Pure."""

import re
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from zoneinfo import ZoneInfo

from fleetwatch.alerts.idle_job import Facts, IdleGPU
from fleetwatch.diagnosis import shell
from fleetwatch.diagnosis.advice import PODS
from fleetwatch.diagnosis.cause import Cause
from fleetwatch.diagnosis.causes import allocated_no_process, idle_held, of_kind, partial_idle
from fleetwatch.lib.intervals import from_ms
from fleetwatch.notify import wording
from fleetwatch.notify.message import Message, one_line

EMPTY_BYTES = 300 * 1024**2  # of a GPU: less than any context
HOURS_PER_MONTH = 730  # 8760 / 12
NAMED_NODES = 4
# What may stand in a command that people copy: nothing that a shell reads.
PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-/]{0,252}", re.ASCII)
LOST = "What was not saved is lost: variables of a session, results since the last checkpoint."


def opened(
    facts: Facts, *, rule_name: str, note: str, zone: ZoneInfo, now: datetime, url: str
) -> Message:
    """The message that a job is idle: who, where, since when, what it costs, what to do."""
    since = wording.moment(from_ms(facts.since_ms), zone, now=now)
    length = wording.duration(facts.until_ms - facts.since_ms)
    return Message(
        title=f"idle · {places(facts)}{_models(facts)} · since {since} ({length})",
        summary=(
            f"{_how_many(facts)} of job {_job(facts)} did nothing for {length}. Owner:"
            f" {_owner(facts)}."
        ),
        fields=(
            ("Owner", _owner(facts)),
            ("Job", _job(facts)),
            ("Idle since", f"{since} ({length})"),
            ("Memory held", wording.gigabytes(facts.memory_bytes)),
            ("So far", wording.usd(facts.cost_usd)),
            ("Burning", _burning(facts.usd_per_hour)),
            ("Rule", f"{one_line(rule_name, 80)}: idle ≥ {facts.threshold_minutes:g} min"),
        ),
        url=url,
        severity="warning",
        text="\n".join(
            line for line in (note, _example_note(facts), _fix(facts), _alike(facts)) if line
        ),
    )


def resolved(
    facts: Facts, *, rule_name: str, reason: str, zone: ZoneInfo, now: datetime, url: str
) -> Message:
    """The message that it is over, why, how long it took and what it cost."""
    length = wording.duration(facts.until_ms - facts.since_ms)
    cost = wording.usd(facts.cost_usd)
    return Message(
        title=f"resolved · {places(facts)} · idle for {length}, cost {cost}",
        summary=f"Job {_job(facts)}: {reason}. {_how_many(facts)} had been idle for {length}.",
        fields=(
            ("Owner", _owner(facts)),
            ("Job", _job(facts)),
            (
                "Idle",
                (
                    f"{wording.moment(from_ms(facts.since_ms), zone, now=now)} to"
                    f" {wording.moment(from_ms(facts.until_ms), zone, now=now)}"
                ),
            ),
            ("Cost", cost),
            ("Rule", f"{one_line(rule_name, 80)}: idle ≥ {facts.threshold_minutes:g} min"),
        ),
        url=url,
        severity="resolved",
        text=_example_note(facts),
    )


def places(facts: Facts) -> str:
    """The idle GPUs by node, e.g. "node-014 GPU 3, 4"; beyond four nodes only how many."""
    by_node = groupby(sorted(facts.gpus, key=_place), key=lambda gpu: gpu.node)
    named = [
        f"{one_line(node, 60)} GPU {', '.join(_gpu(gpu) for gpu in gpus)}" for node, gpus in by_node
    ]
    rest = len(named) - NAMED_NODES
    return "; ".join(named[:NAMED_NODES]) + (f"; {rest} more nodes" if rest > 0 else "")


def _place(gpu: IdleGPU) -> tuple[str, int, str]:
    return (gpu.node, -1 if gpu.index is None else gpu.index, gpu.uuid)


def _gpu(gpu: IdleGPU) -> str:
    number = one_line(gpu.uuid, 20) if gpu.index is None else str(gpu.index)
    return f"{number} ({one_line(gpu.mig_profile, 20)})" if gpu.mig_profile else number


def _models(facts: Facts) -> str:
    models = sorted({one_line(gpu.model, 40) for gpu in facts.gpus if gpu.model})
    return f" ({', '.join(models)})" if models else ""


def _how_many(facts: Facts) -> str:
    idle, held = len(facts.gpus), max(facts.job_gpus, len(facts.gpus))
    if facts.reaches_beyond and idle == held:
        return f"{idle} GPU{'s' * (idle > 1)}"
    if held == 1:
        return "The only GPU"
    return f"All {held} GPUs" if idle == held else f"{idle} of {held} GPUs"


def _job(facts: Facts) -> str:
    key, name = one_line(facts.job_key, 100), one_line(facts.job_name, 60)
    return f"{key} “{name}”" if name else key


def _owner(facts: Facts) -> str:
    return one_line(facts.owner, 80) or "nobody known"


def _burning(usd_per_hour: Decimal | None) -> str:
    if usd_per_hour is None:
        return wording.UNKNOWN
    return (
        f"{wording.usd(usd_per_hour)}/h, ≈ {wording.usd(usd_per_hour * HOURS_PER_MONTH)}/month if"
        " left"
    )


def _example_note(facts: Facts) -> str:
    return (
        "Dollars rest on an example list price: set your own under settings."
        if facts.has_example_rates
        else ""
    )


def _alike(facts: Facts) -> str:
    """What looks the same, and what would tell it apart; "" where nothing does."""
    cause = of_kind(_cause(facts).code, facts.kind)
    return " ".join([cause.alike, *(step.text for step in cause.tell)]).strip()


def _cause(facts: Facts) -> Cause:
    if facts.reaches_beyond or facts.job_gpus > len(facts.gpus):
        return partial_idle.CAUSE
    memory = facts.memory_bytes
    is_empty = memory is not None and memory <= EMPTY_BYTES * len(facts.gpus)
    return allocated_no_process.CAUSE if is_empty else idle_held.CAUSE


def _fix(facts: Facts) -> str:
    """What to do, and what it costs: a job that works on other GPUs is not to be ended, nor a
    service that rests.
    """
    others = facts.job_gpus - len(facts.gpus)
    if others > 0:
        which = "its other GPU is" if others == 1 else f"its other {others} GPUs are"
        return (
            f"Fix: let the job run, {which} not known to be idle. Start one process per GPU, or ask"
            " for fewer GPUs next time."
        )
    if facts.reaches_beyond:
        return (
            "Fix: let the job run, it holds more than is seen of it here. Look at its other nodes,"
            " or ask for fewer GPUs next time."
        )
    if facts.kind == "service":
        return (
            "Fix: see whether somebody still uses the service; if not, take it down: requests fail"
            " from then on."
        )
    command = _ending(facts)
    pods = f" {PODS.text}" if command.startswith(shell.DELETE_POD) else ""
    return f"Fix: {command or 'end the job'}, or give the GPUs back. {LOST}{pods}"


def _ending(facts: Facts) -> str:
    """The command that ends the job; "" where none is known, or a name is not plain."""
    node = facts.nodes[0] if len(facts.nodes) == 1 else ""
    place = shell.Place(
        facts.scheduler, facts.external_id, facts.job_name, node=node, pids=facts.pids
    )
    named = facts.job_name if facts.scheduler == "kubernetes" else facts.external_id
    is_plain = all(PLAIN_ID.fullmatch(name) for name in (named, node or named))
    return shell.ending(place) if is_plain else ""

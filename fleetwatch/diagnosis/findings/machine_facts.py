"""What the advice about a machine needs to know of it."""

from collections.abc import Sequence
from dataclasses import replace

from fleetwatch.diagnosis.cause import Facts
from fleetwatch.diagnosis.causes import BLIND, FAILURES
from fleetwatch.diagnosis.findings import machine_episodes, machine_findings
from fleetwatch.diagnosis.findings.fault_history import often_by_gpu
from fleetwatch.diagnosis.models import Finding
from fleetwatch.diagnosis.shell import NOWHERE, Place
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Allocation
from fleetwatch.ledger.models import Posted
from fleetwatch.ledger.posted_gpus import outages_of
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.telemetry.models import HealthEvent

MAX_PIDS = 8
OFF_THE_BUS = 79  # XID of a GPU that its driver lost


def facts(finding: Finding, interval: Interval) -> Facts:
    """What its advice needs: the node, and the places of its GPUs there."""
    gpus = _gpus(finding, interval)
    freed = machine_findings.freed(finding)
    held = [gpu for gpu in gpus if gpu.pk not in freed]
    pids = sorted({process.pid for process in machine_findings.processes(finding, interval)})
    is_over = (bool(gpus) and not held) or machine_findings.over_since_ms(finding) is not None
    where = replace(_place(finding), pids=tuple(pids[:MAX_PIDS]), is_over=is_over)
    indexes = tuple(sorted({gpu.index for gpu in held if gpu.index is not None}))
    return Facts(
        where,
        indexes=indexes,
        is_lost=not is_over and _is_lost(finding),
        again=_again(gpus) if finding.cause in FAILURES else (),
        gap=machine_episodes.newest_ms(finding) if finding.cause in BLIND else None,
    )


def _gpus(finding: Finding, interval: Interval) -> list[GPU]:
    """Those of a node that it has in the period; of a queue none."""
    if finding.node_id is None:
        return []
    return [line.gpu for line in machine_findings.affected(finding, interval)]


def _place(finding: Finding) -> Place:
    """The node, and the scheduler whose job held one of its GPUs last: what the command to take it
    out of service needs.
    """
    if finding.node is None:
        return NOWHERE
    held = Allocation.objects.filter(gpu__node=finding.node).exclude(job__start_ms=None)
    return Place(
        scheduler=held.order_by("-job__start_ms").values_list("job__scheduler", flat=True).first()
        or "",
        node=finding.node.name,
    )


def _again(gpus: Sequence[GPU]) -> tuple[tuple[str, str], ...]:
    """Of these GPUs those whose last fault was of a kind that they had before, and how often."""
    starts_ms = {
        row.gpu_id: max(
            (each.start_ms for each in outages_of(row.outages) if not each.is_drain), default=None
        )
        for row in Posted.objects.filter(gpu__in=gpus).exclude(outages=[])
    }
    often = often_by_gpu(gpus, {pk: at_ms for pk, at_ms in starts_ms.items() if at_ms is not None})
    return tuple(
        ("the GPU" if len(gpus) == 1 else f"GPU {gpu.index}", often[gpu.pk])
        for gpu in gpus
        if gpu.pk in often
    )


def _is_lost(finding: Finding) -> bool:
    """Whether the driver said that one of its GPUs fell off the bus."""
    events = HealthEvent.objects.filter(node=finding.node_id, kind="xid", code=OFF_THE_BUS)
    span_ms = (finding.first_ms - HOUR_MS, finding.last_ms)
    return finding.cause in FAILURES and events.filter(at_ms__range=span_ms).exists()

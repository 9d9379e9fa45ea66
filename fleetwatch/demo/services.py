"""Stores the simulated fleet's history through the real door, newest blocks first."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from itertools import groupby

from agent import wire
from fleetwatch.demo import demo_reports, scenario
from fleetwatch.demo.blocks import PREFIX, Block, as_delivered, missing
from fleetwatch.demo.fleet import DemoNode, nodes
from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.models import Node
from fleetwatch.inventory.services import node_by_name
from fleetwatch.lib.intervals import to_ms
from fleetwatch.telemetry.models import ReceivedSequence

# what a hub is loaded with by its button: small enough for any machine, and all there in minutes
LOADED_GPUS = 32
LOADED_DAYS = 3
MAX_CHAPTERS = 12  # of a run: some seconds


@dataclass(frozen=True, slots=True)
class Chapter:
    """One block of one node, still to tell."""

    member: DemoNode
    block: Block

    @property
    def day(self) -> date:
        """The UTC day in which it begins."""
        return datetime.fromtimestamp(self.block.start_ms / 1000, tz=UTC).date()


def missing_chapters(*, gpus: int, days: int, until: datetime) -> list[Chapter]:
    """What of the last `days` before `until` is not stored yet, newest first, the nodes side by
    side.
    """
    chapters = [
        Chapter(member, block)
        for member in nodes(gpus)
        for block in _missing(member, days=days, until=until)
    ]
    return sorted(chapters, key=lambda chapter: (-chapter.block.start_ms, chapter.member.name))


def of_faults(chapters: Sequence[Chapter]) -> list[Chapter]:
    """Those in which a driver says something: an incident that is told tells what came before."""
    return [each for each in chapters if scenario.has_events(each.member, each.block)]


def store(
    chapters: Sequence[Chapter], *, clock: Callable[[], datetime]
) -> Iterator[tuple[date, int]]:
    """Stores the chapters day by day in the given order, as a network delivers them, and yields
    each day when it is done: the day and how many windows were new.
    """
    for day, of_day in groupby(chapters, key=lambda chapter: chapter.day):
        delivered = as_delivered(list(of_day), seed=str(day))
        yield day, sum(_store(chapter, received_at=clock()) for chapter in delivered)


def keep_going(now: datetime, *, gpus: int = LOADED_GPUS) -> dict[str, int]:
    """Draws what is missing of the loaded demo up to now, some of it at a time: how many batches,
    and windows in them, were new. Where nothing else is missing, its months are asked for.
    """
    chapters = missing_chapters(gpus=gpus, days=LOADED_DAYS, until=now)[:MAX_CHAPTERS]
    windows = sum(count for _, count in store(chapters, clock=lambda: now))
    is_drawn = len(chapters) < MAX_CHAPTERS
    asked = demo_reports.ask_for_months(now, days=LOADED_DAYS) if is_drawn else 0
    return {"batches": len(chapters), "windows": windows, "months": asked}


def _missing(member: DemoNode, *, days: int, until: datetime) -> list[Block]:
    node = Node.objects.filter(name=member.name).first()
    boots = (
        ReceivedSequence.objects.filter(node=node, boot_id__startswith=f"{PREFIX}-") if node else []
    )
    received = {
        boot.boot_id: {number for low, high in boot.received for number in range(low, high)}
        for boot in boots
    }
    return missing(
        received, last_ms=node.last_ms if node else None, until_ms=to_ms(until), days=days
    )


def _store(chapter: Chapter, *, received_at: datetime) -> int:
    """How many windows were new."""
    batch = scenario.batch(chapter.member, chapter.block)
    as_json = {item.name: getattr(batch, item.name) for item in fields(batch)}
    # parsed like any other batch: what the door would refuse must not come in by the back
    return store_batch(
        node_by_name(chapter.member.name), wire.parse(as_json), received_at=received_at
    ).stored

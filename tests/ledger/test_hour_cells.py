"""Five-minute pieces of hours: written and read, of many nodes at once."""

import numpy as np
import pytest

from fleetwatch.inventory.models import Node
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.judgement.cell_states import KEYS, NAMES, joined
from fleetwatch.lib.intervals import HOUR_MS

pytestmark = pytest.mark.django_db

HOUR = 494_444 * HOUR_MS
NEXT = HOUR + HOUR_MS
CELL = 300_000
LARGE = 2**40  # ids are 64 bits wide


def table(*rows):
    """Of (gpu, job, start, milliseconds of the last state)."""
    gpu_id, job_id, start_ms, last = zip(*rows, strict=True)
    told = (
        dict(zip(KEYS, (gpu_id, job_id, start_ms), strict=True))
        | dict.fromkeys(NAMES, [0] * len(rows))
        | {NAMES[-1]: last}
    )
    return {name: np.array(values, dtype=np.int64) for name, values in told.items()}


def written(name: str, hour_ms: int, *rows) -> int:
    node, _ = Node.objects.get_or_create(name=name)
    hour_cells.write(
        {node.pk: (table(*rows) if rows else joined([]), [hour_ms])},
        start_ms=hour_ms,
        end_ms=hour_ms + HOUR_MS,
    )
    return node.pk


def read(*nodes: int, end_ms: int = NEXT + HOUR_MS):
    """Node -> its rows as `table` takes them."""
    found = hour_cells.read(nodes, HOUR, end_ms)
    return {node: rows_of(one) for node, one in found.items()}


def rows_of(cells):
    """As `table` takes them."""
    return list(zip(*(cells[name].tolist() for name in (*KEYS, NAMES[-1])), strict=True))


def test_each_node_has_its_own_hours_one_after_the_other():
    first = (LARGE, LARGE + 1, HOUR, CELL), (7, 9, HOUR + 11 * CELL, 1)
    second = ((7, 9, NEXT, 2),)
    other = ((8, 9, NEXT + CELL, 3),)
    two = written("n2", NEXT, *other)
    one = written("n1", NEXT, *second)
    written("n1", HOUR, *first)

    assert read(one, two) == {one: [*first, *second], two: [*other]}
    assert read(one, two, end_ms=NEXT) == {one: [*first]}


def test_hours_of_many_nodes_are_read_one_after_the_other_whatever_their_lengths():
    first = (LARGE, LARGE + 1, HOUR, CELL), (7, 9, HOUR + 11 * CELL, 1)
    alike = (8, 9, HOUR, 2), (8, 9, HOUR + CELL, 3)
    single = (5, 6, HOUR + CELL, 4)
    later = (5, 6, NEXT, 5)
    nodes = [
        written("n1", HOUR, *first),
        written("n2", HOUR, *alike),
        written("n3", HOUR, single),
        written("n4", HOUR),
    ]
    written("n3", NEXT, later)

    hours = list(hour_cells.by_hour(nodes, HOUR, NEXT + HOUR_MS))

    assert [sorted(rows_of(hour)) for hour in hours] == [
        sorted([*first, *alike, single]),
        [later],
    ]
    assert list(hour_cells.by_hour(nodes, NEXT + HOUR_MS, NEXT + 2 * HOUR_MS)) == []


def test_an_hour_in_which_nobody_held_anything_has_no_rows_and_a_node_without_hours_is_left_out():
    empty, full, never = (
        written("n1", HOUR),
        written("n2", HOUR, (7, 9, HOUR, 1)),
        Node.objects.create(name="n3").pk,
    )

    assert read(empty, full, never) == {empty: [], full: [(7, 9, HOUR, 1)]}
    assert read(empty) == {empty: []}
    assert read(never) == {}

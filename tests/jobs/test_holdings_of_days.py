"""Who asks of a period is given every hold that touches it, whatever is not looked at."""

import numpy as np
import pytest

from fleetwatch.inventory.models import Node
from fleetwatch.jobs.models import Allocation, Hold
from fleetwatch.jobs.selectors import holdings_of
from tests.dashboard import factories

pytestmark = pytest.mark.django_db
LAST = 60  # of the moments between which all holds lie


def random_spans(random, most: int) -> list[tuple[int, int]]:
    edges = sorted(random.choice(LAST, 2 * random.integers(0, most + 1), replace=False).tolist())
    return list(zip(edges[::2], edges[1::2], strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_no_hold_that_touches_the_period_is_left_out(seed):
    """Ended, requeued, repeated by its node's batches until whenever, or of another repetition."""
    random = np.random.default_rng(seed)
    nodes = [factories.node(name) for name in "abc"]
    for node in nodes:
        from_ms, until_ms = random.integers(0, LAST, 2).tolist()
        Node.objects.filter(pk=node.pk).update(repeated_from_ms=from_ms, repeated_until_ms=until_ms)
        node.refresh_from_db()
        gpu = factories.gpu(node)
        for number in range(40):
            Allocation.objects.create(
                gpu=gpu,
                job=factories.job(f"slurm/{node.name}/{number}"),
                source="slurm",
                asserted=random_spans(random, 3),
                ended=random_spans(random, 1),
                repeated_from_ms=random.choice([None, None, node.repeated_from_ms, 7]),
            )
    every = list(Hold.objects.values_list("gpu__node_id", "job_id", "held"))

    for start_ms in range(-1, LAST + 1, 3):
        for end_ms in range(start_ms + 1, LAST + 2, 7):
            wanted = {
                (node_id, job_id, tuple(span for span in held if touches(span, start_ms, end_ms)))
                for node_id, job_id, held in every
            }
            got = holdings_of([node.pk for node in nodes], start_ms, end_ms)

            assert {
                (node_id, hold.job_id, tuple(hold.spans))
                for node_id, holds in got.items()
                for hold in holds
            } == {row for row in wanted if row[2]}


def touches(span: tuple[int, int], start_ms: int, end_ms: int) -> bool:
    return span[0] < end_ms and start_ms < span[1]

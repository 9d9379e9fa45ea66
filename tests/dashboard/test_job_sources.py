"""A job source that does not answer, and a node that takes no jobs, are said where somebody
looks.
"""

import pytest

from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from fleetwatch.lib.intervals import to_ms
from tests.dashboard import factories
from tests.ingest.factories import batch, gpu, job
from tests.markup import tight

pytestmark = pytest.mark.django_db

MINUTE = 60_000
T0 = to_ms(factories.NOW) - 10 * MINUTE
WHY = "job 11+0: <script>alert(1)</script> scontrol's answer does not begin with the job"


def report(minute, *, node="n1", ok=True, why=None, **keys):
    """A batch of the minute `minute` from T0 on, received when it was over."""
    sources = [{"kind": "slurm", "ok": ok, "why": why}]
    said = {
        "start_ms": T0 + minute * MINUTE,
        "count": 6,
        "sequence": minute,
        "gpus": [gpu(f"GPU-{node}")],
        "sources": sources,
    }
    parsed = batch(node=node, **said | keys)
    store_batch(node_by_name(node), parsed, received_at=factories.NOW)


def page(client, address):
    return client.get(address).content.decode()


def test_status_says_since_when_and_why_and_puts_the_node_first(viewer):
    report(8, node="good")
    report(7, node="later-by-name")
    report(8, node="later-by-name", ok=False, why=WHY)

    shown = page(viewer, "/status")

    assert "1 whose job source does not answer" in shown
    assert "slurm: no answer since Fri 20 Nov, 11:58</span>: job 11+0: &lt;script&gt;" in shown
    assert "<script>alert" not in shown
    assert shown.index("later-by-name") < shown.index(">good<")


def test_a_start_of_the_machine_is_among_the_nodes_events_as_on_the_agents_page(viewer):
    report(5)

    assert "machine started" in page(viewer, "/nodes/n1")
    assert "Machine started" in page(viewer, "/agents/n1")


def test_the_node_page_says_it_and_tells_when_it_began_and_ended(viewer):
    report(5)
    report(6, ok=False, why=WHY)
    silent = page(viewer, "/nodes/n1")
    report(7)
    again = page(viewer, "/nodes/n1")

    assert "no answer since Fri 20 Nov, 11:56" in silent
    assert "job source does not answer" in silent
    assert "slurm: job 11+0: &lt;script&gt;" in silent
    assert "<script>alert" not in silent
    assert "it answers" in tight(again)
    assert again.index("job source answers again") < again.index("job source does not answer")


def test_nothing_is_said_of_sources_that_answer(viewer):
    report(8)

    assert "does not answer" not in page(viewer, "/status")
    assert "does not answer" not in page(viewer, "/nodes/n1")


def test_a_drained_node_says_why_until_it_is_back(viewer):
    told = {"at_ms": T0 + 2 * MINUTE, "kind": "drained", "text": "drain: XID 79, RMA <b>4711</b>"}
    report(2, events=[told])
    report(3, events=[told | {"at_ms": T0 + 3 * MINUTE}])  # the agent began anew
    drained = page(viewer, "/nodes/n1"), page(viewer, "/fleet?view=table")
    report(4, events=[{"at_ms": T0 + 4 * MINUTE, "kind": "resumed"}])
    back = page(viewer, "/nodes/n1"), page(viewer, "/fleet?view=table")

    assert "since Fri 20 Nov, 11:52</span>" in drained[0]
    for shown in drained:
        assert "drain: XID 79, RMA &lt;b&gt;4711&lt;/b&gt;" in shown
    assert "Takes no jobs" not in back[0]
    assert "takes no jobs" not in back[1]


def test_a_host_that_only_imports_accounting_is_no_agent(viewer):
    report(8, node="gpu-01")
    nothing = {
        "gpus": [],
        "windows": {"gpu": [], "start_ms": [], "observed_ms": []},
        "boot_start_ms": 0,
        "sources": [],
    }
    report(8, node="slurmdbd-host", jobs=[job(start_ms=T0, end_ms=T0 + MINUTE)], **nothing)

    for address in ("/status", "/fleet?view=table"):
        assert "gpu-01" in page(viewer, address)
        assert "slurmdbd-host" not in page(viewer, address)


def test_a_node_that_never_sent_anything_is_still_expected(viewer):
    node_by_name("new-one")

    assert "new-one" in page(viewer, "/status")

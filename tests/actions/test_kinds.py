"""What keeps each kind of thing from being acted on, as a table."""

from dataclasses import replace

import pytest

from fleetwatch.actions.decision import first_of
from fleetwatch.actions.kinds import CONDITIONS, KINDS, drain_node, kind_about, stop_job
from fleetwatch.actions.kinds.drain_node import NodeStanding, reason_of
from fleetwatch.actions.kinds.stop_job import Allowed, JobStanding
from fleetwatch.actions.models import Policy
from fleetwatch.inventory.models import GPU

ALLOWED = Allowed(
    teams=frozenset({"nlp"}), job_kinds=frozenset({"batch"}), schedulers=frozenset({"slurm"})
)
JOB = JobStanding(
    team="nlp",
    kind="batch",
    scheduler="slurm",
    pod_owner="",
    nodes=1,
    idle_gpus=2,
    held_gpus=2,
    reaches_beyond=False,
    is_only_one=True,
    is_kept=False,
)
NODE = NodeStanding(is_here=True, is_asked=True, is_drained=False, is_kept=False)


def test_a_condition_has_one_kind_and_a_webhook_may_do_it_instead():
    assert len(set(CONDITIONS)) == len(CONDITIONS)
    assert {kind.name for kind in KINDS} | {"webhook"} == set(Policy.Kind.values)
    assert kind_about("node_silent") is None


def test_a_job_that_is_whole_alone_and_of_the_list_may_be_ended():
    assert first_of(stop_job.refusals(JOB, ALLOWED)) == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"team": ""},
        {"team": "vision"},
        {"kind": "service"},
        {"scheduler": "lsf"},
        {"nodes": 2},
        {"nodes": 0},
        {"idle_gpus": 1},
        {"held_gpus": 3},
        {"reaches_beyond": True},
        {"is_only_one": False},
        {"is_kept": True},
    ],
)
def test_what_keeps_a_job_from_being_ended(fields):
    assert first_of(stop_job.refusals(replace(JOB, **fields), ALLOWED))


@pytest.mark.parametrize(
    ("owner", "by_agent", "by_webhook"),
    [("Job", True, True), ("PyTorchJob", False, True), ("RayCluster", False, True)],
)
def test_agents_end_no_pod_that_something_starts_anew(owner, by_agent, by_webhook):
    owners = frozenset(stop_job.POD_OWNERS)
    pod = replace(JOB, pod_owner=owner)

    whys = [
        first_of(stop_job.refusals(pod, replace(ALLOWED, pod_owners=each)))
        for each in (owners, None)
    ]

    assert [not why for why in whys] == [by_agent, by_webhook]


@pytest.mark.parametrize("name", ["teams", "job_kinds", "schedulers"])
def test_an_empty_list_is_nobody(name):
    assert first_of(stop_job.refusals(JOB, replace(ALLOWED, **{name: frozenset()})))


def test_a_node_with_a_broken_gpu_may_be_drained():
    assert first_of(drain_node.refusals(NODE)) == ""


@pytest.mark.parametrize(
    "fields", [{"is_here": False}, {"is_asked": False}, {"is_drained": True}, {"is_kept": True}]
)
def test_what_keeps_a_node_from_being_drained(fields):
    assert first_of(drain_node.refusals(replace(NODE, **fields)))


@pytest.mark.parametrize(
    ("index", "fault", "reason"),
    [
        (3, "gpu_lost", "FleetWatch incident 42: GPU 3 lost"),
        (0, "xid_79", "FleetWatch incident 42: GPU 0 XID 79"),
        (None, "recovery_action", "FleetWatch incident 42: GPU needs recovery"),
        (3, "driver_missing", "FleetWatch incident 42: GPU 3 no driver"),
        (3, "driver_mismatch", "FleetWatch incident 42: GPU 3 wrong driver"),
        (3, "xid_$(reboot)", "FleetWatch incident 42: GPU 3 broken"),
        (3, "xid_\u0667\u0669", "FleetWatch incident 42: GPU 3 broken"),
        (3, "new\nState=RESUME", "FleetWatch incident 42: GPU 3 broken"),
        (3, "", "FleetWatch incident 42: GPU 3 broken"),
    ],
)
def test_slurm_is_told_fixed_words_and_numbers_alone(index, fault, reason):
    assert reason_of(42, GPU(index=index), fault) == reason

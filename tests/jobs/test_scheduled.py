import pytest

from fleetwatch.jobs.scheduled import ended_by, granted_gpus, reaches_beyond


@pytest.mark.parametrize(
    ("labels", "is_wider"),
    [
        ({}, False),
        ({"requested_gpus": "1", "nodes": "1"}, False),
        ({"requested_gpus": "2", "nodes": "1"}, False),
        ({"requested_gpus": "3", "nodes": "1"}, True),
        ({"requested_gpus": "2", "nodes": "2"}, True),
        ({"nodes": "2"}, True),
        ({"nodes": "two", "requested_gpus": "9" * 10}, False),
        ({"nodes": 2}, False),
        ({"het_job": "4711+0"}, True),
    ],
)
def test_a_job_of_two_gpus_on_one_node_may_hold_more_where_its_scheduler_says_so(labels, is_wider):
    assert reaches_beyond(labels, gpus=2, nodes=1) == is_wider


def test_what_was_asked_for_is_counted_and_what_nobody_told_is_nothing():
    assert granted_gpus({"requested_gpus": "16"}) == 16
    assert granted_gpus({}) == granted_gpus({"requested_gpus": "-1"}) == 0


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"array_job": "4711", "array_task": "7"}, "4711_7"),
        ({"array_job": "4711", "array_task": "0"}, "4711_0"),
        ({"array_job": "4711", "array_task": "1-9%2"}, "4711"),
        ({"array_job": "$(id)", "array_task": "7"}, "4711"),
        ({}, "4711"),
    ],
)
def test_a_task_is_ended_by_its_own_number_and_never_its_whole_array(labels, told):
    assert ended_by("4711", labels) == told

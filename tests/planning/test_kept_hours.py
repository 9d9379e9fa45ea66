"""Hours of GPU models that a process keeps: never older than the entries."""

import pytest

from fleetwatch.inventory.models import GPU, GPUModel
from fleetwatch.ledger.models import Entry, NodeDay
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.planning.selectors import Narrowed, model_hours
from tests.ledger.fleet import BUSY, EMPTY, T0, Sender, a_job, held, hour, post

pytestmark = pytest.mark.django_db

DAY = Interval(hour(0), hour(4))
JOB = {"jobs": [a_job()], "allocations": [held()]}


def held_ms(**narrowed):
    return [
        (each.gpu_model, each.parts.held_ms.tolist())
        for each in model_hours(DAY, Narrowed(**narrowed))
    ]


def test_an_hour_that_is_posted_anew_is_read_anew():
    sender = Sender()
    model = GPU.objects.values_list("model__name", flat=True)
    post(sender.batch(T0, *[BUSY] * 60, **JOB))
    before = held_ms()

    post(sender.batch(T0 + HOUR_MS, *[BUSY] * 60, **JOB))

    assert before == [(model.get(), [HOUR_MS])]
    assert held_ms() == [(model.get(), [HOUR_MS, HOUR_MS])]


def test_a_day_of_which_nothing_was_posted_since_is_not_read_again():
    post(Sender().batch(T0, *[BUSY] * 60, *[EMPTY] * 60, **JOB))
    before = held_ms()

    # behind the back of posting, which tells that it wrote
    Entry.objects.all().delete()

    assert before
    assert held_ms() == before


def test_what_is_kept_of_all_gpus_is_not_told_of_some_nor_of_another_model():
    post(Sender().batch(T0, *[BUSY] * 60, **JOB))
    name = GPU.objects.values_list("model__name", flat=True).get()
    assert held_ms() == held_ms(node="n1") == [(name, [HOUR_MS])]

    assert held_ms(node="n2") == []
    GPU.objects.update(model=GPUModel.objects.create(name="another"))
    assert held_ms() == [("another", [HOUR_MS])]


def test_an_hour_posted_anew_is_read_anew_though_another_nodes_day_went():
    sender = Sender()
    post(sender.batch(T0, *[BUSY] * 60, **JOB), Sender(node="n2").batch(T0, *[BUSY] * 60))
    before = held_ms(node="n1")

    both = sum(NodeDay.objects.values_list("version", flat=True))
    NodeDay.objects.filter(node__name="n2").delete()
    post(sender.batch(T0 + HOUR_MS, *[BUSY] * 60, **JOB))
    # posted as often as both were before
    NodeDay.objects.update(versions=[both, *[0] * 23])

    assert held_ms(node="n1") != before

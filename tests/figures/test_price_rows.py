"""Prices are kept by the process, and read again when anything that they follow from changed."""

import pytest

from fleetwatch.costs.models import Rate
from fleetwatch.figures import price_rows
from fleetwatch.figures.alike_gpus import alike_gpus
from fleetwatch.figures.price_rows import every_price
from fleetwatch.lib.sql import execute, read_statement
from tests.costs.factories import a_gpu, a_rate

pytestmark = pytest.mark.django_db

_COLUMNS = """
SELECT DISTINCT rest.refobjid::regclass::text, attribute.attname
FROM pg_rewrite AS rule
JOIN pg_depend AS rest ON rest.classid = 'pg_rewrite'::regclass AND rest.objid = rule.oid
JOIN pg_attribute AS attribute ON attribute.attrelid = rest.refobjid AND attribute.attnum = rest.refobjsubid
WHERE rule.ev_class = %s::regclass AND rest.refobjsubid > 0
"""


def columns_of(view):
    """(table, column) of all that the view reads."""
    return set(execute(_COLUMNS, [view]))


def as_view(name):
    view = f"of_{name}"
    execute(f"CREATE TEMPORARY VIEW {view} AS {read_statement(f'figures/sql/{name}.sql')}")
    return columns_of(view)


def test_all_that_prices_and_models_are_read_of_is_in_the_digest():
    digest = as_view("prices_follow_from")

    assert columns_of("costs_gpurate") <= digest
    assert as_view("gpus_of_models") <= digest


def test_prices_that_nobody_changed_are_read_once():
    a_rate("2.00", gpu=a_gpu())

    assert every_price() is every_price()
    assert alike_gpus() is alike_gpus()


@pytest.mark.parametrize(
    "change",
    [
        lambda gpu: Rate.objects.update(price_per_gpu_hour=3),
        lambda gpu: a_gpu(node="n9"),
        lambda gpu: type(gpu).objects.filter(pk=gpu.pk).update(model=None),
    ],
    ids=["a dearer rate", "another GPU", "no model"],
)
def test_what_changed_them_is_in_the_next_reading(change):
    gpu = a_gpu()
    a_rate("2.00", gpu=gpu)
    before, alike = every_price(), alike_gpus()

    change(gpu)

    assert every_price().rows != before.rows
    assert alike_gpus() is not alike


def test_a_change_back_gives_the_first_prices_again():
    a_rate("2.00", gpu=a_gpu())
    before = every_price().rows

    Rate.objects.update(price_per_gpu_hour=3)
    every_price()
    Rate.objects.update(price_per_gpu_hour=2)

    assert every_price().rows == before


def test_a_digest_does_not_tell_rows_apart_by_their_order():
    a_rate("2.00", gpu=a_gpu())
    a_rate("3.00", gpu=a_gpu(model="L4"))
    before = price_rows._digest()

    Rate.objects.filter(price_per_gpu_hour=2).update(
        source="a contract"
    )  # a new version of the row

    assert price_rows._digest() == before

import pytest

from fleetwatch.costs.models import Rate
from fleetwatch.costs.tasks import ensure_example_rates
from fleetwatch.operations.models import JobRun
from tests.costs.factories import a_gpu


@pytest.mark.django_db
def test_a_model_gets_its_example_price_by_itself_and_the_run_is_kept():
    a_gpu(model="L4")

    ensure_example_rates()
    ensure_example_rates()

    assert Rate.objects.get().is_example
    assert [run.did for run in JobRun.objects.order_by("pk")] == [{"created": 1}, {"created": 0}]

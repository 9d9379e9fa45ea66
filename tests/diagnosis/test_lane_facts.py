import numpy as np
import pytest

from fleetwatch.diagnosis import lane_facts
from fleetwatch.inventory.models import GPU
from tests.costs.factories import a_gpu

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("profile", "sevenths"),
    [("3g.40gb", 3), ("1g.10gb+me", 1), ("1c.3g.40gb", 3), ("7g.80gb", 7), ("", 0)],
)
def test_how_much_of_its_gpu_an_instance_is_its_profile_says(profile, sevenths):
    whole = a_gpu()
    instance = GPU.objects.create(
        uuid="MIG-1", node=whole.node, model=whole.model, parent=whole, mig_profile=profile
    )

    found = lane_facts.gpus(np.array([whole.pk, instance.pk]))

    assert found.sevenths.tolist() == [7, sevenths]

"""Windows of senders that tell one value of each, as diagnosis reads them."""

import numpy as np
import pytest

from fleetwatch.diagnosis.judgement.single_values import filled
from tests.ledger.factories import BUSY, T0, W, columns, row


@pytest.mark.parametrize(
    ("more", "spin"),
    [
        ({"spin_fraction": 1.0}, 1.0),
        ({"spin_fraction": 1.0, "tensor_active": 0.3}, 0.0),
        ({"spin_fraction": 0.7, "tensor_active": 0.3}, 0.7),
        ({}, 1.0),
        ({"power_w": 300.0}, 0.0),
    ],
)
def test_a_share_of_busy_waiting_is_what_was_sent_where_it_can_be_else_by_the_means(more, spin):
    windows = columns(row((BUSY | {"power_w": 90.0} | more, W), start_ms=T0))

    found = filled(windows, idle_w=np.array([70.0]), limit_w=np.array([700.0]))

    assert found["spin_fraction"].tolist() == [spin]

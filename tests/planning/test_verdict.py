import pytest

from fleetwatch.planning.model_hours import Spread
from fleetwatch.planning.model_lines import ModelLine
from fleetwatch.planning.verdict import verdict


def line(gpu_model: str, gpus: float, p95: float, *, idle_ms=0, unseen_ms=0) -> ModelLine:
    held = Spread(p50=p95, p95=p95, most=p95)
    return ModelLine(gpu_model, gpus, held, 1000, 0, 0, idle_ms, 0, 0, unseen_ms)


@pytest.mark.parametrize(
    ("p95", "spare"),
    [
        (26, [("H100", 6)]),
        (30.9, [("H100", 1)]),  # a part of a GPU can't be spared
        (31.1, []),
        (33, []),  # more were held than there are now
    ],
)
def test_whole_gpus_that_95_of_100_hours_left_unheld_can_be_spared(p95, spare):
    said = verdict([line("H100", 32, p95)], line("", 32, p95, idle_ms=250), 168)

    assert (said.why_not, said.spare, said.spare_gpus) == ("", spare, sum(n for _, n in spare))
    assert said.idle_gpus == 8


def test_what_one_model_has_to_spare_does_not_help_another():
    models = [line("H100", 32, 32), line("L40S", 8, 4)]

    assert verdict(models, line("", 40, 36), 24).spare == [("L40S", 4)]


@pytest.mark.parametrize(
    ("hours", "unseen_ms", "why_not"), [(23, 0, "short"), (24, 100, ""), (24, 101, "unseen")]
)
def test_of_too_little_nothing_is_said(hours, unseen_ms, why_not):
    whole = line("", 32, 26, unseen_ms=unseen_ms)

    assert verdict([line("H100", 32, 26)], whole, hours).why_not == why_not

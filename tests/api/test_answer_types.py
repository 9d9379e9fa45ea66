"""Answers are read from what selectors answer: a field stands in its schema and nowhere else."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest
from ninja import Schema
from pydantic import Field, ValidationError

from fleetwatch.api import schemas
from fleetwatch.api.answer_types import AtOrNone, GPUHours, Joined, TextOrNone, Usd, UsdOrNone
from fleetwatch.api.report_routes import CommittedTime
from fleetwatch.finance.coverage import Covered
from fleetwatch.jobs.selectors import JobSource
from fleetwatch.ledger.policy import STATES


@dataclass(frozen=True)
class Facts:
    start_ms: int | None
    low_ms: int
    spent_usd: Decimal
    budget_usd: Decimal | None
    pool: str


class Answer(Schema):
    start_at: AtOrNone = Field(alias="start_ms")
    low_gpu_hours: GPUHours = Field(alias="low_ms")
    spent_usd: Usd
    budget_usd: UsdOrNone
    pool: TextOrNone


def test_a_dataclass_becomes_an_answer_with_times_hours_and_micro_dollars():
    facts = Facts(1_000, 5_400_000, Decimal("0.12345651"), Decimal(0), "a")

    assert Answer.model_validate(facts).model_dump() == {
        "start_at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "low_gpu_hours": 1.5,
        "spent_usd": 0.123457,
        "budget_usd": 0.0,
        "pool": "a",
    }


def test_what_is_not_known_stays_null_and_zero_stays_zero():
    answer = Answer.model_validate(Facts(None, 0, Decimal(0), None, "")).model_dump()

    assert answer == {
        "start_at": None, "low_gpu_hours": 0.0, "spent_usd": 0.0, "budget_usd": None, "pool": None,
    }  # fmt: skip


def test_a_commitment_is_answered_as_it_was_counted():
    dollars = [Decimal(text) for text in ("0.3000004", "0.2", "0.1", "0.7")]

    row = CommittedTime.model_validate(Covered(1, 3_600, 1_800, 1_800, *dollars)).model_dump()

    assert (row["committed_ms"], row["used_usd"], row["committed_usd"]) == (7_200, 0.3, 0.6)
    assert row["coverage"] == pytest.approx(0.75)


def test_a_source_that_answers_is_silent_since_never():
    row = schemas.JobSource.model_validate(JobSource("slurm", 2_000, None, "")).model_dump()

    assert row == {
        "kind": "slurm", "ok": True, "reported_at": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        "silent_since": None, "why": "",
    }  # fmt: skip


def test_joined_things_give_the_first_ones_name_and_facts_before_things():
    first = Facts(1, 2, Decimal(3), None, "first")
    second = Joined(Facts(9, 9, Decimal(9), Decimal(9), "second"), pool="facts", more=1)

    joined = Joined(first, second, more=2)

    assert (joined.more, joined.pool, joined.start_ms, joined.budget_usd) == (2, "facts", 1, None)
    with pytest.raises(AttributeError, match="nothing"):
        joined.nothing  # noqa: B018


class Planned(Schema):
    budget_amount: float | None = Field(alias="limit.budget.amount")


@pytest.mark.parametrize(
    "misnamed",
    [
        Joined(limits=None),
        Joined(limit=SimpleNamespace(budget=SimpleNamespace(amounts=2))),
        Joined(limit=SimpleNamespace(budget=None)),
    ],
)
def test_a_name_that_nothing_has_is_an_error_and_never_null(misnamed):
    assert Planned.model_validate(Joined(limit=None)).budget_amount is None
    with pytest.raises(ValidationError, match="Field required"):
        Planned.model_validate(misnamed)


def test_figures_by_state_have_the_nine_states_in_their_order():
    assert tuple(schemas.States.model_fields) == tuple(schemas.StateMs.model_fields) == STATES

"""Importing rates: all or nothing, twice is once, and the dollars are known before."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO, StringIO

import pytest
from django.core.management import call_command

from fleetwatch.costs.difference import Imported, closed_days
from fleetwatch.costs.models import Rate
from fleetwatch.costs.rates.imports import dry_run, import_rates
from fleetwatch.costs.services import BEGINNING, RateError, ensure_example_rates, withdraw_rate
from fleetwatch.figures.selectors import totals
from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger.models import ClosedMonth
from fleetwatch.lib.csv_files.csv_rows import RefusedError
from tests.costs.factories import HOUR, a_gpu, a_job, a_rate, an_entry, set_rate

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 19, 47, tzinfo=UTC)
HEADER = "gpu,node,pool,gpu_model,class,region,price,valid_from,valid_to\n"


def faults(content):
    with pytest.raises(RefusedError) as refused:
        import_rates(content.encode(), now=NOW)
    return [(fault.line, fault.field) for fault in refused.value.faults]


def book():
    return list(
        Rate.objects.order_by("valid_from", "pk").values_list(
            "price_per_gpu_hour", "valid_from", "valid_to"
        )
    )


def test_a_misspelt_gpu_model_is_met_with_the_one_most_like_it():
    GPUModel.objects.get_or_create(name="H100 SXM")

    with pytest.raises(RefusedError) as refused:
        import_rates(
            b"gpu_model,price,valid_from\nh100-sxm,3.20,2026-11-01\nabacus,3.20,2026-11-01\n",
            now=NOW,
        )

    assert [fault.text for fault in refused.value.faults] == [
        "There is no GPU model 'h100-sxm'. Did you mean 'H100 SXM'?",
        "There is no GPU model 'abacus'.",
    ]


def test_a_file_sets_rates_of_every_kind_of_subject():
    a_gpu(uuid="GPU-A", node="gpu-01")
    content = (
        HEADER
        + "GPU-A,,,,,,1,2026-11-01,\n,gpu-01,,,,,2,2026-11-01,\n,,train,,,,3,2026-11-01,\n,,,H100"
        " SXM,spot,eu,4,2026-11-01,\n"
    )

    done = import_rates(content.encode(), now=NOW)

    assert (done.set, done.stood) == (4, 0)
    found = Rate.objects.order_by("price_per_gpu_hour").values_list(
        "gpu__uuid", "node__name", "pool", "gpu_model__name", "node_class", "region"
    )
    assert list(found) == [
        ("GPU-A", None, "", None, "", ""),
        (None, "gpu-01", "", None, "", ""),
        (None, None, "train", None, "", ""),
        (None, None, "", "H100 SXM", "spot", "eu"),
    ]
    assert Rate.objects.filter(source="imported").count() == 4


def test_the_same_file_twice_changes_nothing_whatever_the_order_of_its_lines():
    a_gpu()
    lines = [
        ",,,H100 SXM,,,2,2026-06-01,\n",
        ",,,H100 SXM,,,1,2026-05-01,\n",
        ",,,H100 SXM,,,3,2026-07-01,2026-08-01\n",
    ]

    import_rates((HEADER + "".join(lines)).encode(), now=NOW)
    once = book()

    assert import_rates((HEADER + "".join(reversed(lines))).encode(), now=NOW) == Imported(
        set=0, stood=3
    )
    assert book() == once
    months = [datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6, 7, 8)]
    assert once == [(1, months[0], months[1]), (2, months[1], months[2]), (3, months[2], months[3])]


def test_one_bad_line_and_nothing_is_set():
    a_gpu()
    content = (
        HEADER + ",,,H100 SXM,,,2,2026-06-01,\n,moon,,,,,1,2026-05-01,\n,,,B900,,,1,2026-05-01,\n"
    )

    assert faults(content) == [(3, "node"), (4, "gpu_model")]
    assert not Rate.objects.exists()


def test_what_the_rate_book_refuses_is_told_by_line_and_column():
    gpu = a_gpu(node="gpu-01")
    a_gpu(uuid="MIG-A", parent=gpu)
    a_rate("1", gpu=gpu, valid_from=datetime(2026, 6, 1, tzinfo=UTC))
    content = (
        HEADER + ",,,H100 SXM,,,2,2026-05-01,\n"
        ",gpu-01,,,,,10001,2026-05-01,\n"
        ",,a,,,,1,2026-05-01T00:30+00:00,\n"
        ",,b,,,,1,2026-05-01,2026-04-01\n"
        ",,c,,spot,,1,2026-05-01,\n"
        ",,,H100 SXM,gold,,1,2026-05-01,\n"
        "MIG-A,,,,,,1,2026-05-01,\n"
    )

    assert faults(content) == [
        (2, "valid_from"), (3, "price"), (4, "valid_from"), (5, "valid_to"), (6, "class"),
        (7, "class"), (8, ""),
    ]  # fmt: skip


def test_all_that_is_wrong_is_told_at_once_whoever_found_it():
    a_gpu()
    content = (
        HEADER + ",,,H100 SXM,,,cheap,2026-06-01,\n,moon,,,,,1,2026-05-01,\n,,,H100"
        " SXM,,,10001,2026-05-01,\n,,,H100 SXM,,,1,soon,\n"
    )

    assert faults(content) == [(2, "price"), (3, "node"), (4, "price"), (5, "valid_from")]
    assert not Rate.objects.exists()


def test_a_rate_of_what_nobody_has_is_set_and_doubted():
    a_gpu()
    GPUModel.objects.create(name="H100 SMX")
    content = (
        HEADER
        + ",,,H100 SXM,,,2,2026-06-01,\n,,,H100 SMX,,,2,2026-06-01,\n,,trian,,,,2,2026-06-01,\n"
    )

    would = dry_run(content.encode(), now=NOW).would

    assert (would.set, [str(doubt) for doubt in would.doubts]) == (
        3,
        [
            "line 3, gpu_model: No GPU of the model H100 SMX is known.",
            "line 4, pool: No node of the pool trian is known.",
        ],
    )


def test_two_lines_for_one_time_are_refused():
    a_gpu()

    assert faults(HEADER + ",,,H100 SXM,,,2,2026-06-01,\n,,,H100 SXM,,,3,2026-06-01,\n") == [
        (3, "valid_from")
    ]
    assert faults(
        HEADER + ",,,H100 SXM,,,2,2026-05-01,2026-07-01\n,,,H100 SXM,,,3,2026-06-01,\n"
    ) == [(3, "valid_from")]


def test_a_dry_run_says_the_dollars_per_team_and_writes_nothing():
    gpu, other = a_gpu(), a_gpu(model="L4")
    a_rate("2.00", gpu=gpu, is_example=True)
    an_entry(gpu, job=a_job(team="nlp"), start=HOUR)
    an_entry(gpu, job=a_job(team="vision"), start=HOUR + timedelta(hours=1), gpu_ms=1_800_000)
    # today: not over yet
    an_entry(gpu, "free", start=NOW.replace(hour=3, minute=0), gpu_ms=3_600_000)
    an_entry(other, "free", start=HOUR)
    content = HEADER + ",,,H100 SXM,,,3.50,2026-11-01,\n,,,L4,,,1,2026-11-01,\n"
    before, told = book(), totals(closed_days(NOW))

    found = dry_run(content.encode(), now=NOW)

    assert [
        (change.label, change.before_usd, change.after_usd, change.difference_usd)
        for change in found.changes
    ] == [
        ("NLP", Decimal(2), Decimal("3.5"), Decimal("1.5")),
        ("unallocated", 0, 1, 1),
        ("VISION", 1, Decimal("1.75"), Decimal("0.75")),
    ]
    assert (found.total.before_usd, found.total.after_usd) == (Decimal(3), Decimal("6.25"))
    assert (found.unpriced_ms_before, found.unpriced_ms_after) == (3_600_000, 0)
    assert found.would == Imported(set=2, stood=0)
    assert [
        (each.name, each.before and each.before.price_per_gpu_hour, each.rate.price_per_gpu_hour)
        for each in found.would.rates
    ] == [("H100 SXM", 2, Decimal("3.50")), ("L4", None, 1)]
    assert (book(), totals(closed_days(NOW))) == (before, told)
    import_rates(content.encode(), now=NOW)
    assert totals(closed_days(NOW)).cost_usd == found.total.after_usd


def test_the_thirty_days_end_at_the_organisations_last_midnight():
    assert closed_days(NOW).start == datetime(2026, 10, 21, tzinfo=UTC)
    assert closed_days(NOW).end == datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def _november_begins_open():
    """October is closed."""
    an_entry(a_gpu(), start=HOUR)
    policy_id = 1
    from_october = datetime(2026, 10, 1, tzinfo=UTC)
    until = datetime(2026, 11, 1, tzinfo=UTC)
    policy = Rate._meta.apps.get_model("ledger", "Policy").objects.get(version=policy_id)
    ClosedMonth.objects.create(
        month=date(2026, 10, 1),
        start=from_october,
        end=until,
        policy=policy,
        closed_at=NOW,
        closed_by="ann",
    )


@pytest.mark.usefixtures("_november_begins_open")
def test_a_closed_month_keeps_its_dollars():
    gpu = a_gpu()
    standing = a_rate("2.00", gpu=gpu, valid_from=datetime(2026, 5, 1, tzinfo=UTC))
    sentence = "All before 2026-11-01 is closed"

    with pytest.raises(RateError, match=sentence):
        set_rate(gpu.model, Decimal(3), valid_from=datetime(2026, 10, 31, 23, tzinfo=UTC), now=NOW)
    with pytest.raises(RateError, match=sentence):
        withdraw_rate(standing)
    assert faults(HEADER + ",,a,,,,1,beginning,\n") == [(2, "valid_from")]

    later = set_rate(gpu.model, Decimal(3), valid_from=datetime(2026, 11, 1, tzinfo=UTC), now=NOW)
    withdraw_rate(later)
    assert book() == [(2, standing.valid_from, None)]


@pytest.mark.usefixtures("_november_begins_open")
def test_an_example_price_begins_where_the_ledger_is_open():
    ensure_example_rates(NOW)

    assert Rate.objects.get().valid_from == datetime(2026, 11, 1, tzinfo=UTC) != BEGINNING


def run(*arguments):
    out, err = StringIO(), StringIO()
    try:
        call_command("import_rates", *arguments, stdout=out, stderr=err)
    except SystemExit as exit_:
        return exit_.code, out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_the_command_sets_shows_or_refuses(tmp_path, monkeypatch):
    an_entry(a_gpu(), job=a_job(), start=HOUR)
    file = tmp_path / "rates.csv"
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)

    file.write_text(HEADER + ",,,H100 SXM,,,2,2026-11-01,\n")
    status, out, _ = run(str(file), "--dry-run")
    assert (status, Rate.objects.count()) == (0, 0)
    assert "would set 1 rates" in out
    assert [line.split() for line in out.splitlines()][-1] == ["total", "0.00", "2.00", "+2.00"]
    assert run(str(file))[:2] == (0, "1 rates set, 0 stood already\n")
    file.write_text(HEADER + ",,,H100 SXM,,,x,2026-11-01,\n")
    status, _, err = run(str(file))
    assert (status, err) == (
        1,
        f"{file}: line 2, price: A number like 2.49, please, not 'x'.\nnothing was set\n",
    )
    assert run(str(tmp_path / "none.csv"))[0] == 2


def test_the_command_reads_standard_input(monkeypatch):
    a_gpu()
    monkeypatch.setattr(
        "sys.stdin",
        type(
            "Input", (), {"buffer": BytesIO((HEADER + ",,,H100 SXM,,,2,2026-11-01,\n").encode())}
        )(),
    )

    assert run("-")[0] == 0

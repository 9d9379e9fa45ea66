"""`manage.py export`: the lines that other tools read."""

import io
from importlib import import_module
from importlib.util import find_spec

import pytest
from django.core.management import call_command

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry import seal
from tests.telemetry.factories import HOUR_START_MS, make_node, store
from tests.telemetry.test_seal import CLOSED

pytestmark = pytest.mark.django_db

PERIOD = ("--from", "2026-11-20T10:00", "--to", "2026-11-20T11:00")
HEAD = "node,gpu,index,start,end,observed_s,boot_start,sequence"
BOOT = "2026-11-19T10:00:00.000Z"


def export(*arguments):
    """(lines, exit status, what was said beside them)."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    try:
        call_command("export", *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        status = ended.code
    return out.getvalue().splitlines(), status, err.getvalue()


def test_windows_come_as_lines_by_gpu_and_start_with_gaps_empty():
    node = make_node()
    starts = [HOUR_START_MS + 10_500, HOUR_START_MS, HOUR_START_MS]
    columns = {"util_mean": [0.125, 1, None], "memory_used_bytes": [85899345920, 0, 1]}
    store(node, starts=starts, positions=[0, 0, 1], columns=columns, observed=[9_500, 10_000, 0])

    lines, status, said = export(*PERIOD, "--metrics", "util_mean,memory_used_bytes")

    assert lines == [
        f"{HEAD},util_mean,memory_used_bytes",
        f"gpu-07,GPU-gpu-07-0,0,2026-11-20T10:00:00.000Z,2026-11-20T10:00:10.000Z,10,{BOOT},1,1,0",
        f"gpu-07,GPU-gpu-07-0,0,2026-11-20T10:00:10.500Z,2026-11-20T10:00:20.500Z,9.5,{BOOT},1,0.125,85899345920",
        f"gpu-07,GPU-gpu-07-1,1,2026-11-20T10:00:00.000Z,2026-11-20T10:00:10.000Z,0,{BOOT},1,,1",
    ]
    assert (status, said) == (0, "windows written: 3, nodes: 1\n")


def test_sealing_changes_no_line():
    store(make_node(), columns={"util_mean": [0.1, None], "power_w": [612.34567891234, 70]})
    hot = export(*PERIOD)

    seal.seal_closed_hours(CLOSED, limit=10)

    assert export(*PERIOD) == hot


def test_a_window_belongs_to_the_period_it_starts_in_so_that_periods_add_up():
    edge = HOUR_START_MS + HOUR_MS
    store(make_node(), starts=[HOUR_START_MS - 5_000, HOUR_START_MS, edge - 5_000, edge])

    before, within, after = (
        len(export("--from", low, "--to", high)[0]) - 1
        for low, high in (
            ("2026-11-20", "2026-11-20T10:00Z"),
            ("2026-11-20T10:00Z", "2026-11-20T12:00+01:00"),
            ("2026-11-20T11:00", "2026-11-21"),
        )
    )

    assert (before, within, after) == (1, 2, 1)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_period_of_a_thousand_years_takes_no_longer_than_what_there_is(
    is_sealed, django_assert_max_num_queries
):
    make_node("empty")
    store(make_node())
    if is_sealed:
        seal.seal_closed_hours(CLOSED, limit=10)
    whole = export(*PERIOD)

    with django_assert_max_num_queries(30):
        assert export("--from", "1026-01-01", "--to", "9999-12-31") == whole


def test_nodes_and_gpus_are_chosen_by_name():
    for name in ("a", "b", "c"):
        store(make_node(name), starts=[HOUR_START_MS] * 2, positions=[0, 1])

    def gpus(*chosen):
        return [line.split(",")[1] for line in export(*PERIOD, "--metrics", "", *chosen)[0][1:]]

    assert gpus("--node", "a", "--node", "c") == ["GPU-a-0", "GPU-a-1", "GPU-c-0", "GPU-c-1"]
    assert gpus("--gpu", "GPU-b-1") == ["GPU-b-1"]
    assert gpus("--gpu", "GPU-b-1", "--node", "a") == []


def test_a_name_that_a_spreadsheet_would_run_is_only_text():
    store(make_node("=cmd|' /C calc'!A0"), starts=[HOUR_START_MS])

    lines, _, _ = export(*PERIOD, "--metrics", "")

    assert lines[1].startswith("'=cmd|' /C calc'!A0,")


def test_a_file_is_written(tmp_path):
    store(make_node())
    path = tmp_path / "windows.csv"

    lines, status, _ = export(*PERIOD, "--output", str(path))

    assert (lines, status) == ([], 0)
    assert path.read_text().splitlines() == export(*PERIOD)[0]
    subjects = AuditEntry.objects.order_by("pk").values_list("action", "subject", "detail__nodes")
    assert list(subjects) == [("export.windows", str(path), 1), ("export.windows", "-", 1)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from", "yesterday", "--to", "2026-11-20"), "--from: expected a time like"),
        (("--from", "2026-11-20", "--to", "2026-11-20"), "is not before"),
        ((*PERIOD, "--node", "nowhere"), "--node nowhere: there is no such node"),
        ((*PERIOD, "--gpu", "GPU-x"), "--gpu GPU-x: there is no such GPU"),
        (
            (*PERIOD, "--metrics", "util_mean,utilisation"),
            "--metrics utilisation: there is no such column; there are util_mean,",
        ),
        (
            (*PERIOD, "--format", "parquet"),
            "pip install pyarrow" if find_spec("pyarrow") is None else "needs --output FILE",
        ),
    ],
)
def test_bad_arguments_are_told_and_nothing_is_written(arguments, said):
    lines, status, error = export(*arguments)

    assert (lines, status) == ([], 2)
    assert said in error


def test_parquet_holds_what_the_csv_holds_or_says_what_it_needs(tmp_path):
    store(make_node(), columns={"util_mean": [0.125, None]})
    path = tmp_path / "windows.parquet"

    _, status, said = export(
        *PERIOD, "--metrics", "util_mean", "--format", "parquet", "--output", str(path)
    )

    if find_spec("pyarrow") is None:
        assert (status, path.exists()) == (2, False)
        assert "pip install pyarrow, or take --format csv" in said
    else:
        table = import_module("pyarrow.parquet").read_table(path).to_pydict()
        starts = [moment.isoformat() for moment in table["start"]]
        assert list(table) == [*HEAD.split(","), "util_mean"]
        assert starts == ["2026-11-20T10:00:00+00:00", "2026-11-20T10:00:10+00:00"]
        assert (table["gpu"], table["util_mean"], table["observed_s"]) == (
            ["GPU-gpu-07-0"] * 2,
            [0.125, None],
            [10.0, 10.0],
        )


def test_a_folder_that_is_not_there_is_told():
    _, status, error = export(*PERIOD, "--output", "/nowhere/at/all.csv")

    assert (status, error) == (1, "/nowhere/at/all.csv: No such file or directory\n")

"""Files of stored reports: they sum to the total, open in a spreadsheet, and no name in them is
ever a formula.
"""

import csv
import io
import re
import zipfile
from decimal import Decimal
from xml.etree import ElementTree as ET

import pytest

from fleetwatch.jobs.models import Job
from fleetwatch.reports import download
from fleetwatch.reports.exports import excel_cells
from fleetwatch.reports.exports.cover_sheet import most_of
from fleetwatch.reports.exports.tables import OF_STATES
from tests.costs.factories import HOUR_MS, a_job
from tests.reports.factories import HOUR, OCTOBER, a_fleet, computed, counted, newest

pytestmark = pytest.mark.django_db
SHEET = {"x": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
HOSTILE = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "＝1+1")


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def sheets(data):
    """Texts and numbers of each sheet by name; no formula is there but the sum of a column."""
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        shared = [
            "".join(part.text or "" for part in each.iter(f"{{{SHEET['x']}}}t"))
            for each in ET.fromstring(book.read("xl/sharedStrings.xml")).findall("x:si", SHEET)
        ]
        names = [
            each.get("name")
            for each in ET.fromstring(book.read("xl/workbook.xml")).findall(
                "x:sheets/x:sheet", SHEET
            )
        ]
        found = {}
        for number, name in enumerate(names, start=1):
            root = ET.fromstring(book.read(f"xl/worksheets/sheet{number}.xml"))
            formulas = [each.text or "" for each in root.findall(".//x:f", SHEET)]
            assert all(re.fullmatch(r"SUM\([A-Z]+2:[A-Z]+\d+\)", each) for each in formulas)
            found[name] = [
                [
                    shared[int(cell.findtext("x:v", "", SHEET))]
                    if cell.get("t") == "s"
                    else Decimal(cell.findtext("x:v", "0", SHEET))
                    for cell in row.findall("x:c", SHEET)
                    if cell.find("x:v", SHEET) is not None
                ]
                for row in root.findall(".//x:row", SHEET)
            ]
        return found


def test_excel_has_hours_x_rate_beside_each_amount():
    a_fleet()
    computed()

    head, *models, _ = sheets(download.xlsx(newest()))["GPU models"]

    at = head.index("With a rate, GPU-hours")
    assert head[at : at + 3] == [
        "With a rate, GPU-hours",
        "US dollars per GPU-hour",
        "Cost, US dollars",
    ]
    assert [row[at : at + 3] for row in models] == [[4, 4, 16], [3, 1, 3]]


def test_a_statements_csv_has_its_lines_with_units_in_the_head():
    a_fleet()
    computed()

    train, tune = read(download.csv(newest("nlp")))

    assert (train["month"], train["from_utc"], train["to_utc"]) == (
        "2026-10",
        "2026-10-01T00:00:00Z",
        "2026-11-01T00:00:00Z",
    )
    assert (train["team"], train["job"], train["user"], train["gpu_model"]) == (
        "nlp",
        "slurm/della/1",
        "ann",
        "H100",
    )
    assert (train["gpu_hours"], train["useful_gpu_hours"], train["idle_gpu_hours"]) == (
        "2.000000",
        "1.000000",
        "1.000000",
    )
    assert (
        train["usd_per_gpu_hour"],
        train["cost_usd"],
        train["waste_certain_usd"],
        train["wasted_usd"],
    ) == (
        "4.00",
        "8.000000",
        "4.000000",
        "4.000000",
    )
    assert tune["cost_usd"] == "1.000000"


def test_hours_by_state_are_those_of_the_page_and_sum_to_the_lines():
    big, _ = a_fleet()
    api = a_job(key="slurm/della/9", user="ann")
    at = {"job": api, "start": OCTOBER + 5 * HOUR}
    counted(big, gpu_ms=HOUR_MS // 4, efficiency_source="none", **at)
    counted(big, gpu_ms=HOUR_MS // 2, **at)
    counted(big, state="stalled", tier="potential", gpu_ms=HOUR_MS // 8, **at)
    counted(big, state="stalled", tier="probable", gpu_ms=HOUR_MS // 8, **at)
    computed()

    [line] = [line for line in read(download.csv(newest("nlp"))) if line["job"] == api.key]
    of_states = {column: line[column] for column in OF_STATES if float(line[column])}

    assert line["gpu_hours"] == "1.000000"
    assert of_states == {
        "useful_gpu_hours": "0.500000",
        "busy_unverified_gpu_hours": "0.250000",
        "stalled_gpu_hours": "0.125000",
        "waiting_gpu_hours": "0.125000",
    }


def test_the_files_say_how_much_of_the_busy_time_only_utilisation_tells():
    big, _ = a_fleet()
    ocr = a_job(key="slurm/della/9", user="ann")
    counted(big, gpu_ms=HOUR_MS // 4, job=ocr, start=OCTOBER + 5 * HOUR, efficiency_source="none")
    counted(big, gpu_ms=HOUR_MS // 2, job=ocr, start=OCTOBER + 5 * HOUR)
    computed()

    lines = {line["job"]: line for line in read(download.csv(newest("nlp")))}
    fleet = {line["team"]: line for line in read(download.csv(newest()))}

    assert (
        lines["slurm/della/9"]["useful_gpu_hours"],
        lines["slurm/della/9"]["busy_unverified_gpu_hours"],
    ) == ("0.500000", "0.250000")
    assert lines["slurm/della/1"]["busy_unverified_gpu_hours"] == "0.000000"
    assert (
        fleet["nlp"]["busy_unverified_gpu_hours"],
        fleet["vision"]["busy_unverified_gpu_hours"],
    ) == ("0.250000", "0.000000")


def test_the_fleets_csv_sums_to_its_cost():
    a_fleet()
    computed()

    lines = read(download.csv(newest()))

    assert [(line["line"], line["team"], line["state"]) for line in lines] == [
        ("team", "nlp", ""),
        ("team", "vision", ""),
        ("team", "(none)", ""),
        ("own line", "", "free"),
        ("own line", "", "unobserved"),
    ]
    assert sum(Decimal(line["cost_usd"]) for line in lines) == 19


def test_no_name_becomes_a_formula():
    big, _ = a_fleet()
    for hours, name in enumerate(HOSTILE, 4):
        counted(big, job=a_job(name=name, user=name), start=OCTOBER + hours * HOUR)
    computed()
    statement = newest("nlp")

    rows = list(csv.reader(io.StringIO(download.csv(statement))))
    focus = list(csv.reader(io.StringIO(download.focus(statement))))
    book = sheets(download.xlsx(statement))

    assert not [
        cell for row in rows + focus for cell in row if re.match(r"[=+\-@\t\r\n＝＋－＠]", cell)
    ]
    assert set(HOSTILE) <= {cell for row in book["Lines"] for cell in row}


def test_excel_has_a_sheet_per_table_with_numbers_as_numbers():
    a_fleet()
    computed()

    statement, fleet = sheets(download.xlsx(newest("nlp"))), sheets(download.xlsx(newest()))

    assert list(statement) == ["Cover", "Lines", "Users", "Difference"]
    assert list(fleet) == ["Cover", "Teams", "GPU models", "Savings", "Difference"]
    head, train, _, total = statement["Lines"]
    assert (head[6], train[6]) == ("Job", "train")
    # of Excel's days since 1900
    assert (head[:2], train[:2]) == (["Month", "From (UTC)"], ["October 2026", 46296])
    assert total[:2] == ["Total", 3]
    assert Decimal(9) in total
    assert {Decimal(8), Decimal(4), Decimal(2)} <= {
        cell for cell in train if isinstance(cell, Decimal)
    }
    assert statement["Difference"][1][-4:] == [Decimal(1), Decimal(4), Decimal(-3), Decimal(0)]


def test_the_cover_says_whose_month_in_which_currency_what_it_comes_to_and_what_words_mean():
    a_fleet()
    computed()

    content = download.xlsx(newest("nlp"))

    rows = sheets(content)["Cover"]
    facts = {row[0]: row[1] for row in reversed(rows) if len(row) > 1}
    assert rows[0][0] == "GPU cost of NLP, October 2026"
    assert facts["Period"] == "1–31 Oct 2026"
    assert facts["Currency"] == "US dollars (USD)"
    assert (facts["Cost"], facts["Of that, wasted"], facts["GPU-hours"]) == (9, 4, 3)
    assert facts["Wasted, US dollars"].startswith("Certain and probable")
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        assert "Cover!$D$" in book.read("xl/charts/chart1.xml").decode().replace("'", "")


def test_the_cover_has_cents_and_other_sheets_all_digits():
    a_fleet()
    computed()
    report = newest()

    book = sheets(download.xlsx(report, invoiced=[("Billed", Decimal("13942.68400713694"))]))

    facts = {row[0]: row[1] for row in book["Cover"] if len(row) > 1}
    assert facts["Billed"] == Decimal("13942.68")


def test_the_savings_sheet_says_below_its_rows_what_was_agreed_and_left_out():
    a_fleet()
    computed()
    report = newest()
    before = sheets(download.xlsx(report))["Savings"]
    report.content["savings_agreed"] = {"jobs": 1, "wasted_usd": "1248.004000"}

    rows = sheets(download.xlsx(report))["Savings"]

    assert rows[: len(before)] == before
    assert rows[-1][0] == "Left out: 1 job agreed as not waste, $1,248.00"


def test_the_fleets_chart_has_a_bar_for_each_team_and_one_for_what_no_job_held():
    a_fleet()
    computed()
    report = newest()

    rows = sheets(download.xlsx(report))["Cover"]

    content = report.content
    unallocated = sum(Decimal(line["cost_usd"]) for line in content["own_lines"])
    teams = [[team["name"], Decimal(team["cost_usd"])] for team in content["teams"]]
    assert [row[-2:] for row in rows if row[-2:] in teams] == teams
    assert not unallocated or ["Unallocated", unallocated] in [row[-2:] for row in rows]


def test_a_chart_of_many_ends_with_what_the_others_come_to():
    bars = [(f"team {number}", Decimal(number)) for number in range(20, 0, -1)]

    assert most_of(bars[:15]) == bars[:15]
    assert most_of(bars)[-2:] == [("team 7", Decimal(7)), ("6 others", Decimal(21))]


def test_a_total_is_the_sum_of_its_column_that_can_be_followed():
    a_fleet()
    computed()

    with zipfile.ZipFile(io.BytesIO(download.xlsx(newest()))) as book:
        teams = book.read("xl/worksheets/sheet2.xml").decode()

    assert "SUM(" in teams


def test_the_cover_says_what_a_running_month_was_expected_to_come_to_and_was_billed():
    a_fleet()
    computed()
    report = newest()
    budget = {"budget_usd": "100", "expected_usd": "90", "low_usd": "80", "high_usd": "95"}
    report.content["budget"] = budget | {"spent_usd": "10", "note": "", "risk": "partial month"}
    report.content["recorded_since"] = "2026-10-15T00:00:00Z"

    book = sheets(download.xlsx(report, invoiced=[("Billed by invoices", Decimal(70))]))

    facts = {row[0]: row[1] for row in reversed(book["Cover"]) if len(row) > 1}
    assert facts["Expected at the month's end, middle"] == 90
    assert facts["Billed by invoices"] == 70
    assert book["Budget"][1][-1] == "Days missing: nothing before 15 Oct 2026 is recorded."


def test_a_file_is_named_by_month_team_and_version_whatever_the_team_is_called():
    a_fleet()
    computed()
    statement = newest("nlp")

    assert download.name(statement) == "fleetwatch-2026-10-nlp-v1"
    assert download.name(newest()) == "fleetwatch-2026-10-fleet-v1"
    statement.subject = '../../x"\r\nSet-Cookie: a'
    assert download.name(statement) == "fleetwatch-2026-10-x-Set-Cookie-a-v1"
    statement.subject = "語"
    assert download.name(statement) == f"fleetwatch-2026-10-team-{statement.pk}-v1"


def test_a_stored_version_gives_the_same_file_for_ever():
    a_fleet()
    computed()
    statement = newest("nlp")
    before = download.csv(statement), download.focus(statement)

    Job.objects.update(name="renamed", user="renamed")
    computed()

    assert (download.csv(statement), download.focus(statement)) == before
    assert newest("nlp").version == 2


def test_a_rate_in_a_workbook_has_the_digits_that_it_has():
    assert excel_cells.SHOWN_AS[excel_cells.kind_of("contract_usd_per_gpu_hour")] == "#,##0.00#"
    assert excel_cells.kind_of("cost_usd") == "money"

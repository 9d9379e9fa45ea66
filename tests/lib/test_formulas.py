import csv
import io
import sys
import unicodedata
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.lib.csv_files.formulas import defused
from fleetwatch.reports.exports.files import to_csv


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("＝1", "'＝1"),
        ("\t=1", "'\t'=1"),
        ("\rx", "'\rx"),
        ("\nx", "'\nx"),
        ("train;=1+1", "train;'=1+1"),
        ('train; "=1+1"', 'train; "\'=1+1"'),
        ("train;a;@b", "train;a;'@b"),
        ("train\r\n=1+1", "train\r\n'=1+1"),
        ("train\t-1", "train\t'-1"),
        ("train-1", "train-1"),
        ("a=b; c=d", "a=b; c=d"),
        ("lr=1e-3,-x", "lr=1e-3,-x"),
        ("", ""),
        ("\u00a0=1+1", "\u00a0'=1+1"),
        ("\u200b=1+1", "\u200b'=1+1"),
        ("\ufeff@SUM(A1)", "\ufeff'@SUM(A1)"),
        ("\x00\x1b-1", "\x00\x1b'-1"),
        ("\u3000＝1", "\u3000'＝1"),
        ("\u2060＠x", "\u2060'＠x"),
        ("\u3164+1", "\u3164'+1"),
        ("a;\u00a0=1+1", "a;\u00a0'=1+1"),
        ("a\t\ufeff=1+1", "a\t\ufeff'=1+1"),
        ("a\u2028=1", "a\u2028'=1"),
        ("a\x0b＋1", "a\x0b'＋1"),
        ("﹣1", "'﹣1"),
        ("a\u00a0=1", "a\u00a0=1"),
    ],
)
def test_no_part_of_a_name_begins_a_formula(name, shown):
    assert defused(name) == shown


def test_whatever_shows_nothing_hides_no_formula():
    unseen = [
        chr(number)
        for number in range(sys.maxunicode + 1)
        if unicodedata.category(chr(number)) in ("Zs", "Zl", "Zp", "Cc", "Cf")
    ]

    assert [ascii(each) for each in unseen if "'=" not in defused(f"{each}=1")] == []
    assert [ascii(each) for each in unseen if "'=" not in defused(f"a;{each}=1")] == []


def test_a_number_stays_a_number():
    assert to_csv(["usd", "gpus"], [[Decimal("-5.20"), -5]]) == "usd,gpus\r\n-5.20,-5\r\n"


def test_a_long_name_of_separators_is_read_once():
    assert defused("\t" * 100_000) == "'" + "\t" * 100_000


@given(st.text(alphabet="=+-@＝;,\t\r\n\" 'ax1"))
def test_whatever_a_spreadsheet_cuts_the_line_at_no_cell_begins_a_formula(name):
    out = io.StringIO()
    csv.writer(out).writerow(["job", defused(name), "1.5"])

    for delimiter in ",;\t":
        rows = list(csv.reader(io.StringIO(out.getvalue(), newline=""), delimiter=delimiter))
        assert [cell for row in rows for cell in row if cell.startswith(tuple("=+-@＝"))] == [], (
            delimiter
        )

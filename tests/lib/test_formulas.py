import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.lib.formulas import defused


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
    ],
)
def test_no_part_of_a_name_begins_a_formula(name, shown):
    assert defused(name) == shown


@given(st.text(alphabet="=+-@＝;,\t\r\n\" 'ax1"))
def test_whatever_a_spreadsheet_cuts_the_line_at_no_cell_begins_a_formula(name):
    out = io.StringIO()
    csv.writer(out).writerow(["job", defused(name), "1.5"])

    for delimiter in ",;\t":
        rows = list(csv.reader(io.StringIO(out.getvalue(), newline=""), delimiter=delimiter))
        assert [cell for row in rows for cell in row if cell.startswith(tuple("=+-@＝"))] == [], delimiter

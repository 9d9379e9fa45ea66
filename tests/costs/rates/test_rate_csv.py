"""Files of rates: what is read, and what is said of what can't be."""

from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from django.forms import model_to_dict
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.costs.models import Rate
from fleetwatch.costs.rates import rate_csv
from fleetwatch.costs.rates.rate_csv import FORM
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.lib.csv_files.csv_rows import MAX_FAULTS, RefusedError, refuse

BERLIN = ZoneInfo("Europe/Berlin")
HEADER = "gpu_model,class,region,price,valid_from,valid_to,pricing_class,source,source_date\n"


def read(content, zone):
    rows, found = rate_csv.read(content, zone)
    refuse(found)
    return rows


def faults(text):
    with pytest.raises(RefusedError) as refused:
        read(text if isinstance(text, bytes) else text.encode(), BERLIN)
    return [(fault.line, fault.field, fault.text) for fault in refused.value.faults]


def test_each_line_is_a_rate():
    text = (
        HEADER + "H100 SXM,spot,eu-1, 2.10 ,2026-11-01,2026-12-01T00:00+01:00,reserved,contract"
        " 7,2026-10-20\nL4,,,0.5,Beginning,,,,\n"
    )

    rows = read(text.encode(), BERLIN)

    assert [(row.line, row.kind, row.name) for row in rows] == [
        (2, "gpu_model", "H100 SXM"),
        (3, "gpu_model", "L4"),
    ]
    assert [model_to_dict(row.rate) for row in rows] == [
        model_to_dict(
            Rate(
                node_class="spot",
                region="eu-1",
                price_per_gpu_hour=Decimal("2.10"),
                currency="USD",
                valid_from=datetime(2026, 10, 31, 23, tzinfo=UTC),
                valid_to=datetime(2026, 11, 30, 23, tzinfo=UTC),
                pricing_class="reserved",
                source="contract 7",
                source_date=date(2026, 10, 20),
            )
        ),
        model_to_dict(
            Rate(price_per_gpu_hour=Decimal("0.5"), valid_from=BEGINNING, source="imported")
        ),
    ]


@pytest.mark.parametrize("kind", ["gpu", "node", "pool", "gpu_model"])
def test_a_rate_is_for_any_one_kind_of_subject(kind):
    [row] = read(f"{kind},price,valid_from\nx,1,beginning\n".encode(), BERLIN)

    assert (row.kind, row.name) == (kind, "x")


@pytest.mark.parametrize("empty", [",", ",,,", ", , "])
def test_empty_columns_on_the_right_and_empty_lines_above_are_a_spreadsheets(empty):
    [row] = read(
        f"{empty}\n\nnode,price,valid_from{empty}\nx,1,beginning{empty}\n{empty}\n".encode(), BERLIN
    )

    assert (row.name, row.rate.price_per_gpu_hour) == ("x", 1)


def test_a_value_under_no_name_is_not_left_aside():
    assert faults("node,price,valid_from,\nx,1,beginning,2\n") == [
        (2, "", "It has 4 cells, the first line has 3.")
    ]
    assert faults("node,,price,valid_from\nx,,1,beginning\n") == [(1, "", "A column has no name.")]


@pytest.mark.parametrize("price", ["1e999999999", "1e-999999999", "-1e400"])
def test_a_number_of_no_sensible_size_is_told(price):
    assert faults(f"node,price,valid_from\nx,{price},beginning\n") == [
        (2, "price", f"A number like 2.49, please, not {price!r}.")
    ]


def test_spreadsheets_write_semicolons_a_byte_order_mark_and_carriage_returns():
    [row] = read('\ufeffPool;Price;Valid_From\r\n"a; b";1;2026-11-01\r\n;;\r\n'.encode(), BERLIN)

    assert (row.name, row.line) == ("a; b", 2)


def test_every_fault_is_told_by_line_and_field():
    text = (
        "gpu,node,price,valid_from,valid_to,source\n"
        "GPU-1,,cheap,2026-11-01,,\n"
        '\n,gpu-01,1,2026-13-01,,"a\nb"\n'
        "GPU-1,gpu-01,1,2026-11-01,,\n"
        ",,1,2026-11-01,,\n"
        ",gpu-01,1,,,\n"
        ",gpu-01,1,2026-11-01,soon,\n"
        ",gpu-01,1,2026-11-01T00:00,,\n"
        ",gpu-01,NaN,2026-11-01,,\n"
    )

    assert [(line, field) for line, field, _ in faults(text)] == [
        (2, "price"),
        (4, "source"),
        (6, "node"),
        (7, ""),
        (8, "valid_from"),
        (9, "valid_to"),
        (10, "valid_from"),
        (11, "price"),
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", (1, "", "The file is empty.")),
        (" \n", (1, "", "The file is empty.")),
        ("gpu,price\n", (1, "valid_from", "This column is needed.")),
        ("price,valid_from\n", (1, "", "One of the columns gpu, node, pool, gpu_model is needed.")),
        ("gpu,price,valid_from,colour\n", (1, "colour", "There is no such column.")),
        ("gpu,gpu,price,valid_from\n", (1, "gpu", "This column stands twice.")),
        ("gpu,price,valid_from\n", (1, "", "There is no rate in it.")),
        (
            "gpu,price,valid_from\na,1,beginning,x\n",
            (2, "", "It has 4 cells, the first line has 3."),
        ),
        (
            b"gpu,price,valid_from\n\xff,1,beginning\n",
            (2, "", "This is not UTF-8 text: save it as CSV UTF-8."),
        ),
        ("gpu,price,valid_from\na\0,1,beginning\n", (2, "", "There is a zero byte in it.")),
        (b"x" * (FORM.max_bytes + 1), (1, "", "The file is larger than 1,000,000 bytes.")),
        (
            "gpu,price,valid_from\na,1_0,beginning\n",
            (2, "price", "A number like 2.49, please, not '1_0'."),
        ),
        (
            "gpu,price,valid_from\na,\u0661,beginning\n",
            (2, "price", "A number like 2.49, please, not '\u0661'."),
        ),
        (
            f"gpu,price,valid_from\n{'a' * 301},1,beginning\n",
            (2, "gpu", "At most 300 letters and no control characters, please."),
        ),
        (
            "gpu,price,valid_from\na\u202e,1,beginning\n",
            (2, "gpu", "At most 300 letters and no control characters, please."),
        ),
        (
            "gpu,price,valid_from\na,1,0001-01-01\n",
            (2, "valid_from", "A date like 2026-11-01, please, not '0001-01-01'."),
        ),
    ],
)
def test_a_file_that_can_not_be_is_told_why(text, fault):
    assert fault in faults(text)


def test_a_line_with_too_many_cells_hides_no_other():
    assert [
        (line, field)
        for line, field, _ in faults(
            "gpu,price,valid_from\na,x,beginning\nb,1,beginning,y\nc,1,soon\n"
        )
    ] == [
        (2, "price"),
        (3, ""),
        (4, "valid_from"),
    ]


def test_a_quote_that_never_ends_is_no_csv():
    [(_, field, text)] = faults('gpu,price,valid_from\n"a,1,beginning\n')

    assert (field, text[:15]) == ("", "This is no CSV:")


def test_there_is_an_end_to_rows_and_to_faults():
    head = "gpu,price,valid_from\n"
    assert len(read((head + "a,1,beginning\n" * FORM.max_rows).encode(), BERLIN)) == FORM.max_rows
    assert faults(head + "a,1,beginning\n" * (FORM.max_rows + 1)) == [
        (FORM.max_rows + 2, "", "There are more than 2,000 rows in it.")
    ]
    assert len(faults(head + "a,x,beginning\n" * 500)) == MAX_FAULTS


@given(
    st.one_of(
        st.binary(max_size=300),
        st.text(alphabet=st.sampled_from('a1;,"\n\r.-ü\u202e'), max_size=200).map(str.encode),
    )
)
def test_whatever_bytes_come_are_rows_or_faults(content):
    for head in (b"", b"gpu,price,valid_from\n", ",".join(FORM.columns).encode() + b"\n"):
        assert rows_or_faults(head + content)


def rows_or_faults(content):
    try:
        return read(content, BERLIN)
    except RefusedError as error:
        return error.faults

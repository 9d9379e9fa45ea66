"""A table fits its terminal, and no name speaks to it."""

import pytest

from cli.terminal_text import cells, clean, cut, paint
from cli.text_tables import Column, table

COLUMNS = (Column("JOB", is_text=True), Column("NAME", is_text=True, rank=1), Column("COST"))
ROWS = [["slurm/della/1000", "a name of some length", "$12.50"], ["slurm/della/7", "x", "$1.00"]]


def test_numbers_are_on_the_right_and_whole():
    assert table(COLUMNS, ROWS, 80).splitlines() == [
        "JOB               NAME                     COST",
        "slurm/della/1000  a name of some length  $12.50",
        "slurm/della/7     x                       $1.00",
    ]


def test_the_widest_text_is_cut_first_then_columns_go():
    assert table(COLUMNS, ROWS, 40).splitlines()[1] == "slurm/della/10…  a name of some…  $12.50"
    assert table(COLUMNS, ROWS, 26).splitlines()[1] == "slurm/d…  a name …  $12.50"
    assert table(COLUMNS, ROWS, 25).splitlines()[1] == "slurm/della/1000  $12.50"


@pytest.mark.parametrize("width", range(16, 60))
def test_no_line_is_wider_than_the_terminal(width):
    assert all(cells(line) <= width for line in table(COLUMNS, ROWS, width).splitlines())


def test_letters_of_two_cells_and_of_none_count_as_the_terminal_shows_them():
    assert (cells("漢字"), cells("e\u0301"), cut("漢字漢字", 5)) == (4, 1, "漢字…")


def test_what_a_terminal_would_obey_is_gone():
    assert clean("a\x1b[31mb\u202ec\nd\x9be") == "a [31mb c d e"


def test_colours_are_for_terminals_that_want_them():
    assert paint("x", "bold", {}) == "x"  # no terminal

"""A CSV file as it came in: its rows by column, or what is wrong with it by line and field. Pure.

UTF-8, commas or semicolons, a first line with the columns. What the cells mean is the caller's.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _csv import Reader

Row = TypeVar("Row")
Cells = Mapping[str, str]  # of a line, by column
MAX_FAULTS = 100  # told; a file that is wrong in more places is wrong in its form
MAX_COUNTED = 10_000  # what comes after so many is not read


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a line (the first is 1) and field ("" = the line as a whole)."""

    line: int
    field: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}{f', {self.field}' if self.field else ''}: {self.text}"


class RefusedError(ValueError):
    """A file that can't be taken; nothing of it was. `faults`: the first MAX_FAULTS of `count`."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(map(str, faults[:3])))
        self.faults = faults[:MAX_FAULTS]
        self.count = len(faults)


def refuse(faults: Iterable[Fault]) -> None:
    """Raises RefusedError, the first lines first, if there are any."""
    if ordered := sorted(faults, key=lambda fault: fault.line):
        raise RefusedError(ordered)


class FieldError(ValueError):
    """A cell that can't be taken."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class Form:
    """What a file has to be: which columns are read, and which of them it needs.

    `sound`: what a cell that can't be taken is read as ("" where it has no column), so that all
    that is wrong in a line is told at once; None: the first of it is.
    """

    what: str  # one line is
    columns: tuple[str, ...]
    needed: tuple[str, ...]
    one_of: tuple[tuple[str, ...], ...] = ()  # of each of these at least one
    is_ours: bool = True  # its columns in any case, and no others; else those are left aside
    max_bytes: int = 1_000_000
    max_rows: int = 2_000
    sound: Mapping[str, str] | None = None


def read(
    content: bytes, forms: Sequence[Form], parse: Callable[[Form, int, Cells], Row]
) -> tuple[list[Row], list[Fault]]:
    """The lines as `parse` makes them of their number and cells ("" where a column is missing), and
    what is wrong with the others: FieldErrors, too, some MAX_COUNTED of them. Of a form that says
    what is sound a faulty line is among the lines too, as it would be without its faults.

    The form is the first one whose first needed column is there, else the last one. Raises
    RefusedError where no line can be read at all.
    """
    text = _text(content, forms[0].max_bytes)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    faults: list[Fault] = []
    rows = list(_rows(reader, forms, parse, faults))
    if not faults and not rows:
        faults.append(Fault(1, "", f"There is no {forms[-1].what} in it."))
    return rows, faults


def _rows(
    reader: "Reader",
    forms: Sequence[Form],
    parse: Callable[[Form, int, Cells], Row],
    faults: list[Fault],
) -> Iterator[Row]:
    """The rows as read() says; what is wrong with others is added to the faults."""
    try:
        form, header = _form(reader, forms)
        for line, cells in _filled(reader, form.max_rows, faults):
            row, wrong = _parsed(partial(parse, form, line), form, header, cells)
            faults += [Fault(line, field, text) for field, text in wrong.items()]
            if row is not None:
                yield row
    except csv.Error as error:
        faults.append(Fault(reader.line_num, "", f"This is no CSV: {error}."))


def _parsed(
    parse: Callable[[Cells], Row], form: Form, header: list[str], values: list[str]
) -> tuple[Row | None, dict[str, str]]:
    """The row of these values, None where it can't be read, and what is wrong with it by field."""
    wrong: dict[str, str] = {}
    try:
        cells = dict.fromkeys(form.columns, "") | _cells(header, values)
    except FieldError as error:
        return None, {error.field: str(error)}
    while True:
        try:
            return parse(cells), wrong
        except FieldError as error:
            is_told = error.field in ("", *wrong)
            wrong.setdefault(error.field, str(error))
            if form.sound is None or is_told:
                return None, wrong
            cells |= {error.field: form.sound.get(error.field, "")}


def _form(reader: "Reader", forms: Sequence[Form]) -> tuple[Form, list[str]]:
    """The file's form and its columns. Raises RefusedError where they are not the form's."""
    header = [name.strip() for name in next(filter(_is_filled, reader), [])]
    while header and not header[-1]:  # spreadsheets save columns that once held something
        header.pop()
    form = next((each for each in forms if each.needed[0] in header), forms[-1])
    if form.is_ours:
        header = [name.lower() for name in header]
    refuse(_header_faults(header, form))
    return form, header


def _filled(
    reader: "Reader", max_rows: int, faults: list[Fault]
) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of each further line that is not empty, up to MAX_COUNTED faults; that there
    are too many of them is a fault.
    """
    count = 0
    following = reader.line_num + 1
    for cells in reader:
        # a quoted cell may go over several lines: where the row begins is what is told
        line = following
        following = reader.line_num + 1
        if not _is_filled(cells):
            continue
        count += 1
        if count > max_rows:
            faults.append(Fault(line, "", f"There are more than {max_rows:,} rows in it."))
        if count > max_rows or len(faults) >= MAX_COUNTED:
            return
        yield line, cells


def _cells(header: list[str], cells: list[str]) -> dict[str, str]:
    if _is_filled(cells[len(header) :]):
        raise FieldError("", f"It has {len(cells)} cells, the first line has {len(header)}.")
    given = zip_longest(header, cells[: len(header)], fillvalue="")
    return {name: cell.strip() for name, cell in given}


def _header_faults(header: list[str], form: Form) -> list[Fault]:
    """Columns that nobody knows, stand twice or are missing."""
    foreign = [name for name in header if form.is_ours and name not in form.columns]
    twice = sorted({name for name in header if header.count(name) > 1})
    missing = [name for name in form.needed if name not in header]
    texts = [
        (name, "There is no such column." if name else "A column has no name.") for name in foreign
    ]
    texts += [(name, "This column stands twice.") for name in twice]
    texts += [(name, "This column is needed.") for name in missing]
    texts += [
        ("", f"One of the columns {', '.join(names)} is needed.")
        for names in form.one_of
        if not set(names).intersection(header)
    ]
    return [Fault(1, name[:40], text) for name, text in texts]


def _text(content: bytes, max_bytes: int) -> str:
    if len(content) > max_bytes:
        raise _refused(f"The file is larger than {max_bytes:,} bytes.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        sentence = "This is not UTF-8 text: save it as CSV UTF-8."
        raise _refused(sentence, content[: error.start].count(b"\n") + 1) from error
    if not text.strip():
        raise _refused("The file is empty.")
    if "\0" in text:
        raise _refused("There is a zero byte in it.", text.partition("\0")[0].count("\n") + 1)
    return text


def _refused(text: str, line: int = 1) -> RefusedError:
    return RefusedError([Fault(line, "", text)])


def _is_filled(cells: list[str]) -> bool:
    return any(cell.strip() for cell in cells)


def _delimiter(text: str) -> str:
    """What the first line has more of: spreadsheets of some countries write semicolons."""
    first = text.lstrip().splitlines()[0]
    return ";" if first.count(";") > first.count(",") else ","

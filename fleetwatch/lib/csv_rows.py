"""A CSV file as it came in: its rows by column, or what is wrong with it by line and field. Pure.

UTF-8, commas or semicolons, a first line with the columns. What the cells mean is the caller's.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _csv import Reader

Row = TypeVar("Row")
Line = tuple[int, Mapping[str, str]]  # its number (the first is 1) and its cells by column
MAX_FAULTS = 100  # told; a file that is wrong in more places is wrong in its form


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a line (the first is 1) and field ("" = the line as a whole)."""

    line: int
    field: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}{f', {self.field}' if self.field else ''}: {self.text}"


class RefusedError(ValueError):
    """A file that can't be taken; nothing of it was."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(map(str, faults[:3])))
        self.faults = faults


def refuse(faults: Iterable[Fault]) -> None:
    """Raises RefusedError, the first lines first, if there are any."""
    if ordered := sorted(faults, key=lambda fault: fault.line):
        raise RefusedError(ordered[:MAX_FAULTS])


class FieldError(ValueError):
    """A cell that can't be taken."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def rows(
    content: bytes,
    *,
    max_bytes: int,
    max_rows: int,
    check_header: Callable[[list[str]], None],
    lower: bool = True,
) -> Iterator[Line | Fault]:
    """Each line that is not empty, or what is wrong with its form; columns in lower case, where
    they are ours.

    Raises RefusedError where no line can be read at all; `check_header` does so for columns.
    """
    text = _text(content, max_bytes)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        header = [name.strip() for name in next(filter(_is_filled, reader), [])]
        while header and not header[-1]:  # spreadsheets save columns that once held something
            header.pop()
        if lower:
            header = [name.lower() for name in header]
        check_header(header)
        yield from _body(reader, header, max_rows)
    except csv.Error as error:
        yield Fault(reader.line_num, "", f"This is no CSV: {error}.")


def _body(reader: "Reader", header: list[str], max_rows: int) -> Iterator[Line | Fault]:
    """The lines after the header."""
    count = 0
    following = reader.line_num + 1
    for cells in reader:
        # a quoted cell may go over several lines: where the row begins is what is told
        at = following
        following = reader.line_num + 1
        if not _is_filled(cells):
            continue
        count += 1
        if count > max_rows:
            yield Fault(at, "", f"There are more than {max_rows:,} rows in it.")
            return
        if _is_filled(cells[len(header) :]):
            yield Fault(at, "", f"It has {len(cells)} cells, the first line has {len(header)}.")
        else:
            yield at, dict(zip(header, (cell.strip() for cell in cells), strict=False))


def parsed(
    lines: Iterable[Line | Fault], parse: Callable[[int, Mapping[str, str]], Row], *, what: str
) -> tuple[list[Row], list[Fault]]:
    """The lines of rows() as `parse` makes them, and what is wrong with the others: FieldErrors,
    too. `what` one is called.
    """
    parsed_rows: list[Row] = []
    faults: list[Fault] = []
    for line in lines:
        if isinstance(line, Fault):
            faults.append(line)
            continue
        try:
            parsed_rows.append(parse(*line))
        except FieldError as error:
            faults.append(Fault(line[0], error.field, str(error)))
    return parsed_rows, faults if faults or parsed_rows else [
        Fault(1, "", f"There is no {what} in it.")
    ]


def header_faults(
    header: list[str], *, needed: tuple[str, ...], allowed: tuple[str, ...] | None = None
) -> list[Fault]:
    """Columns that stand twice or are missing; and those that nobody knows, where others are not
    just left aside.
    """
    foreign = [name for name in header if allowed is not None and name not in allowed]
    unknown = [
        Fault(1, name[:40], "There is no such column." if name else "A column has no name.")
        for name in foreign
    ]
    twice = [
        Fault(1, name[:40], "This column stands twice.")
        for name in sorted({name for name in header if header.count(name) > 1})
    ]
    return [
        *unknown,
        *twice,
        *(Fault(1, name, "This column is needed.") for name in needed if name not in header),
    ]


def _text(content: bytes, max_bytes: int) -> str:
    if len(content) > max_bytes:
        raise RefusedError([Fault(1, "", f"The file is larger than {max_bytes:,} bytes.")])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedError(
            [
                Fault(
                    content[: error.start].count(b"\n") + 1,
                    "",
                    "This is not UTF-8 text: save it as CSV UTF-8.",
                )
            ]
        ) from error
    if not text.strip():
        raise RefusedError([Fault(1, "", "The file is empty.")])
    if "\0" in text:
        raise RefusedError(
            [Fault(text[: text.index("\0")].count("\n") + 1, "", "There is a zero byte in it.")]
        )
    return text


def _is_filled(cells: list[str]) -> bool:
    return any(cell.strip() for cell in cells)


def _delimiter(text: str) -> str:
    """What the first line has more of: spreadsheets of some countries write semicolons."""
    first = text.lstrip().splitlines()[0]
    return ";" if first.count(";") > first.count(",") else ","

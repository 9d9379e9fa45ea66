"""People as CSV: a file as it came in becomes rows, or a list of what is wrong with it by line and
field.

A line is a user and what he is given: a name in another system (system "" = Unix, cluster "" = on
every one), an address, a role, a team. What is empty stays as it is.
"""

from dataclasses import dataclass, fields

from fleetwatch.accounts.models import Identity
from fleetwatch.lib.csv_files import csv_cells, csv_rows
from fleetwatch.lib.csv_files.csv_rows import Cells, Fault, FieldError, Form


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the file."""

    line: int
    user: str
    system: str
    cluster: str
    name: str
    email: str
    role: str
    team: str


FORM = Form(
    what="user",
    columns=tuple(each.name for each in fields(Row) if each.name != "line"),
    needed=("user",),
    max_rows=1_000,  # each is up to a dozen writes, in one request
)


def read(content: bytes) -> tuple[list[Row], list[Fault]]:
    """The rows of a file, and what is wrong with its other lines.

    Raises RefusedError where its columns or its form can't be.
    """
    return csv_rows.read(content, [FORM], lambda _, line, cells: _row(line, cells))


def _row(line: int, cells: Cells) -> Row:
    csv_cells.check_texts(cells)
    if not cells["user"]:
        raise FieldError("user", "Whose line is it? A user name here.")
    if not cells["name"] and (cells["system"] or cells["cluster"]):
        raise FieldError("name", "Which name there?")
    system = cells["system"].lower() or (Identity.System.UNIX if cells["name"] else "")
    return Row(line=line, **{**cells, "system": str(system), "role": cells["role"].lower()})

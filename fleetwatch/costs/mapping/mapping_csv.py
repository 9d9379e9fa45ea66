"""Mapping rules as CSV: a file as it came in becomes checked rows, or a list of what is wrong with
it by line and field.

Columns: what a rule asks (user, account, namespace, partition, label as key=value), what it gives
(team, project, cost_centre), priority ("" = 100), valid_from and valid_to ("" = open) as dates of
the organisation, times with an offset, or "beginning"; note.
"""

from zoneinfo import ZoneInfo

from fleetwatch.costs.mapping import rule_terms
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, MappingError, Terms
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.lib.csv_files import csv_cells, csv_rows
from fleetwatch.lib.csv_files.csv_rows import Cells, Fault, FieldError, Form

FORM = Form(
    what="rule",
    columns=(
        *rule_terms.CONDITIONS,
        *rule_terms.GIVES,
        "priority",
        "valid_from",
        "valid_to",
        "note",
    ),
    needed=("valid_from",),
    one_of=(tuple(rule_terms.CONDITIONS), tuple(rule_terms.GIVES)),
)


Row = tuple[int, Terms]  # a rule, and in which line it stands


def read(content: bytes, zone: ZoneInfo) -> tuple[list[Row], list[Fault]]:
    """The rules of a file, and what is wrong with its other lines.

    Raises RefusedError where its columns or its form can't be.
    """
    return csv_rows.read(content, [FORM], lambda _, line, cells: _row(line, cells, zone))


def _row(line: int, cells: Cells, zone: ZoneInfo) -> Row:
    csv_cells.check_texts(cells)
    try:
        label, value = rule_terms.read_label(cells["label"])
        asks = {name: cells[name] for name in rule_terms.CONDITIONS if name != "label"}
        terms = Terms(
            asks=Conditions(**asks, label=label, label_value=value),
            gives=Gives(**{name: cells[name] for name in rule_terms.GIVES}),
            priority=_priority(cells["priority"]),
            valid_from=csv_cells.begins("valid_from", cells["valid_from"], zone) or BEGINNING,
            valid_to=csv_cells.moment("valid_to", cells["valid_to"], zone),
            note=cells["note"],
        )
        rule_terms.check(terms)
    except MappingError as error:
        raise FieldError(error.field, str(error)) from error
    return line, terms


def _priority(text: str) -> int:
    if not text:
        return rule_terms.USUAL
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(rule_terms.LAST)):
        raise FieldError(
            "priority",
            f"A whole number from {rule_terms.FIRST} to {rule_terms.LAST}, please, not"
            f" {text[:40]!r}.",
        )
    return int(text)

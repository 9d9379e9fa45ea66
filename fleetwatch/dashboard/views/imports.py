"""Files of rates, mapping rules and people: one is looked at first, with what it would change, then
the same text is imported.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from fleetwatch.accounts import people_csv, people_imports
from fleetwatch.accounts.people_imports import ImportedPeople
from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.costs.difference import LOOKS_BACK_DAYS, Imported
from fleetwatch.costs.mapping import mapping_csv, mapping_imports
from fleetwatch.costs.mapping.rule_terms import GIVES
from fleetwatch.costs.rates import imports, rate_csv
from fleetwatch.dashboard.parameters import View, takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.showing import CSV, Context, page
from fleetwatch.lib.csv_files.csv_rows import RefusedError


@dataclass(frozen=True, slots=True)
class Kind:
    """What files are of: one line is a `noun`; `home` is the page that it comes from and goes back
    to, which is called `home_title`.
    """

    noun: str
    home: str
    home_title: str
    difference: str  # template
    columns: tuple[str, ...]
    explained: str  # template
    example: Mapping[str, str]  # by column, a line as it may be
    max_bytes: int
    look: Callable[..., Any]  # what it says is the template's
    act: Callable[[bytes, datetime, str], Imported | ImportedPeople]  # by whom
    right: Right = Right.MONEY
    section: str = "settings"  # of the rail
    tab: str = "pricing"  # of the ways between pages of settings
    more_examples: tuple[Mapping[str, str], ...] = ()  # lines of other kinds

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Each column with what the example has there."""
        return [(column, self.example.get(column, "")) for column in self.columns]

    @property
    def csv(self) -> str:
        """A file to begin with: the columns, and the example as its one line."""
        return self._csv_of(self.example)

    @property
    def examples_csv(self) -> str:
        """The same with a line of each other kind."""
        return self._csv_of(self.example, *self.more_examples)

    def _csv_of(self, *lines: Mapping[str, str]) -> str:
        rows = [self.columns, *([line.get(name, "") for name in self.columns] for line in lines)]
        return "".join(f"{','.join(row)}\n" for row in rows)


RATES = Kind(
    noun="rate",
    home="settings_pricing",
    home_title="Pricing",
    section="pricing",
    difference="dashboard/_difference_in_dollars.html",
    columns=rate_csv.FORM.columns,
    explained="dashboard/_columns_of_rates.html",
    example={
        "gpu_model": "H100 SXM",
        "class": "reserved",
        "region": "eu-central-1",
        "price": "2.10",
        "currency": "USD",
        "valid_from": "2026-11-01",
        "source": "contract 2026-17",
    },
    more_examples=(
        {
            "node": "gpu-07",
            "price": "1.80",
            "valid_from": "2026-11-01",
            "pricing_class": "owned",
            "source": "calculator",
        },
        {
            "pool": "batch",
            "price": "1.10",
            "valid_from": "beginning",
            "valid_to": "2027-01-01",
            "pricing_class": "spot",
            "source": "provider’s price list",
            "source_date": "2026-10-01",
        },
    ),
    max_bytes=rate_csv.FORM.max_bytes,
    look=imports.dry_run,
    act=lambda content, now, _: imports.import_rates(content, now=now),
)
RULES = Kind(
    noun="rule",
    home="mappings",
    tab="mappings",
    home_title="Teams and mapping",
    difference="dashboard/_difference_in_dollars.html",
    columns=mapping_csv.FORM.columns,
    explained="dashboard/_columns_of_rules.html",
    example={
        "account": "ml-*",
        "label": "project=vision-*",
        "team": "vision",
        "project": "Apollo",
        "cost_centre": "4711",
        "priority": "100",
        "valid_from": "2026-11-01",
        "note": "agreed with finance",
    },
    max_bytes=mapping_csv.FORM.max_bytes,
    look=mapping_imports.dry_run,
    act=lambda content, now, by: mapping_imports.import_mappings(content, now=now, by=by),
)

PEOPLE = Kind(
    noun="user",
    home="people",
    tab="people",
    home_title="People",
    section="people",
    difference="dashboard/_difference_in_people.html",
    columns=people_csv.FORM.columns,
    explained="dashboard/_columns_of_people.html",
    example={
        "user": "dana",
        "system": "unix",
        "cluster": "alps",
        "name": "dlee",
        "email": "dana@example.org",
        "role": "lead",
        "team": "vision",
    },
    max_bytes=people_csv.FORM.max_bytes,
    look=people_imports.dry_run,
    act=lambda content, now, _: people_imports.import_people(content, now=now),
    right=Right.PEOPLE,
)


def _view_of(kind: Kind) -> View:
    @require_http_methods(["GET", "POST"])
    @needs(kind.right)
    @never_cache
    @takes()
    def view(request: HttpRequest) -> HttpResponse:
        return _page(request, kind)

    return view


def _page(request: HttpRequest, kind: Kind) -> HttpResponse:
    """A file is looked at first, with what it would change; then the same text is imported."""
    period = read_period(request)
    context: Context = {"kind": kind, "days": LOOKS_BACK_DAYS, "owner_names": GIVES}
    if request.method == "POST":
        content = _content(request, kind.max_bytes)
        if len(content) <= kind.max_bytes:
            context["text"] = content.decode("utf-8-sig", "replace")
        try:
            if request.POST.get("do") == "import":
                imported = kind.act(content, period.now, request.user.get_username())
                messages.success(request, _done(imported, kind.noun))
                return redirect(f"{reverse(kind.home)}#{kind.noun}s")
            context["dry_run"] = kind.look(content, now=period.now)
        except RefusedError as error:
            context["refused"] = error
    return page(request, period, "dashboard/import.html", kind.section, context)


def _done(done: Imported | ImportedPeople, noun: str) -> str:
    were = " was" if done.set == 1 else "s were"
    return f"{done.set} {noun}{were} set; {done.stood} stood already."


def _content(request: HttpRequest, max_bytes: int) -> bytes:
    """The uploaded file, else the text; one byte more than is taken at most."""
    file = request.FILES.get("file")
    if file is not None:
        return bytes(file.read(max_bytes + 1))
    return request.POST.get("text", "").encode()


def _template(kind: Kind) -> View:
    @require_GET
    @needs(kind.right)
    @takes()
    def template(_: HttpRequest) -> HttpResponse:
        """A file to fill in."""
        name = f"fleetwatch-{kind.noun}s.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(kind.csv, content_type=CSV, headers=headers)

    return template


rates_import = _view_of(RATES)
rates_template = _template(RATES)
mappings_import = _view_of(RULES)
mappings_template = _template(RULES)
people_import = _view_of(PEOPLE)
people_template = _template(PEOPLE)

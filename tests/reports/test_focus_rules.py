"""The FOCUS export against the specification's own machine-readable rules."""

import json
import re
from datetime import datetime
from decimal import Decimal

import pytest

from tests.reports.test_focus import SPECIFICATION, a_fleets_rows, needs_specification

pytestmark = pytest.mark.django_db

# columns of what a provider may offer and we do not (the model's applicability criteria); they are
# null
NOT_OFFERED = ("CapacityReservation",)
# of a status the specification's text has Used and Unused (commitmentdiscountstatus.md), null where
# there is no commitment; the model has Active, Expired and Pending, never null, and turns both
# conditions round; of a category it forgets null
MISTAKEN = (
    "CommitmentDiscountStatus-C-003-C",
    "CommitmentDiscountStatus-C-004-C",
    "CommitmentDiscountStatus-C-005-M",
    "CommitmentDiscountCategory-C-005-M",
)
# "MUST NOT be null when the charge is associated with an invoice": the model leaves the condition
# out; a showback has none
WITH_AN_INVOICE = "InvoiceId-C-005-C"


class Rules:
    """The specification's static rules over our rows: which of them, unconditional or under their
    condition, do not hold.

    A rule that only the provider's documents can prove (its type is Dynamic) is no rule of a file.
    """

    def __init__(self, model, rows):
        self.rules, self.rows = model["ModelRules"], rows
        # "When … adheres to the following": what a rule of rules asks is asked under its condition
        # alone
        self.above = {}
        for rule in self.rules.values():
            for part in re.findall(
                r'"ModelRuleId": "([^"]+)"', json.dumps(rule["ValidationCriteria"]["Requirement"])
            ):
                self.above.setdefault(part, []).append(rule["ValidationCriteria"]["Condition"])

    def broken(self):
        """The names of the rules that some row breaks, and how many were judged.

        Rules of rules are judged by their parts.
        """
        judged = [name for name, rule in self.rules.items() if self._is_judged(name, rule)]
        return [name for name in judged if self._failing(name)], len(judged)

    def _is_judged(self, name, rule):
        criteria = rule["ValidationCriteria"]
        is_rule_of_a_file = (
            rule["Status"] == "Active"
            and rule["Type"] == "Static"
            and criteria["Keyword"].startswith("MUST")
        )
        is_sum = "CheckModelRule" in json.dumps(criteria["Requirement"])
        return (
            is_rule_of_a_file
            and not is_sum
            and not name.startswith(NOT_OFFERED)
            and name not in (WITH_AN_INVOICE, *MISTAKEN)
        )

    def _failing(self, name):
        criteria = self.rules[name]["ValidationCriteria"]
        return [
            row
            for row in self.rows
            if all(
                self._holds(condition, row, otherwise=True)
                for condition in (criteria["Condition"], *self.above.get(name, []))
            )
            and not self._holds(criteria["Requirement"], row, otherwise=True)
        ]

    def _holds(self, check, row, *, otherwise):
        if not check:
            return otherwise
        # the model says {"AND": check} and {"AND": [check, …]} too
        if "CheckFunction" not in check:
            return all(
                self._holds(each, row, otherwise=True)
                for part in check.values()
                for each in _listed(part)
            )
        function = check["CheckFunction"]
        if function in ("AND", "OR"):
            return (all if function == "AND" else any)(
                self._holds(each, row, otherwise=True) for each in check["Items"]
            )
        return getattr(self, f"_{function}")(check, row)

    def _CheckModelRule(self, check, row):  # noqa: N802
        rule = self.rules[check["ModelRuleId"]]
        if rule["Type"] != "Static" or not rule["ValidationCriteria"]["Keyword"].startswith("MUST"):
            return True
        criteria = rule["ValidationCriteria"]
        return not self._holds(criteria["Condition"], row, otherwise=True) or self._holds(
            criteria["Requirement"], row, otherwise=True
        )

    def _ColumnPresent(self, check, row):  # noqa: N802
        return check["ColumnName"] in row

    def _CheckValue(self, check, row):  # noqa: N802
        return row[check["ColumnName"]] == check["Value"]

    def _CheckNotValue(self, check, row):  # noqa: N802
        # the model says CheckCondition for ColumnName twice
        return row[check.get("ColumnName") or check["CheckCondition"]] != check["Value"]

    def _CheckSameValue(self, check, row):  # noqa: N802
        return row[check["ColumnAName"]] == row[check["ColumnBName"]]

    def _CheckNotSameValue(self, check, row):  # noqa: N802
        return row[check["ColumnAName"]] != row[check["ColumnBName"]]

    def _CheckDistinctCount(self, check, row):  # noqa: N802
        name = row[check["ColumnAName"]]
        found = {
            each[check["ColumnBName"]] for each in self.rows if each[check["ColumnAName"]] == name
        }
        return len(found) == int(check["ExpectedCount"])

    def _CheckGreaterOrEqualThanValue(self, check, row):  # noqa: N802
        return row[check["ColumnName"]] is None or Decimal(row[check["ColumnName"]]) >= Decimal(
            str(check["Value"])
        )

    def _ColumnByColumnEqualsColumnValue(self, check, row):  # noqa: N802
        return Decimal(row[check["ColumnAName"]]) * Decimal(row[check["ColumnBName"]]) == Decimal(
            row[check["ResultColumnName"]]
        )

    def _is_number(self, check, row):
        return (
            row[check["ColumnName"]] is None
            or re.fullmatch(r"-?\d+(\.\d+)?", row[check["ColumnName"]]) is not None
        )

    _TypeDecimal = _FormatNumeric = _CheckDecimalValue = _is_number

    def _is_text(self, check, row):
        value = row[check["ColumnName"]]
        return value is None or value == value.strip()

    _TypeString = _FormatString = _is_text

    def _is_moment(self, check, row):
        value = row[check["ColumnName"]]
        return value is None or datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ") is not None  # noqa: DTZ007

    _TypeDateTime = _FormatDateTime = _is_moment

    def _is_currency(self, check, row):
        return row[check["ColumnName"]] in (None, "USD")

    _FormatCurrency = _CheckNationalCurrency = _is_currency

    def _FormatUnit(self, check, row):  # noqa: N802
        return row[check["ColumnName"]] in (None, "GPU-Hours")

    def _FormatKeyValue(self, check, row):  # noqa: N802
        value = row[check["ColumnName"]]
        return value is None or all(
            isinstance(each, str | int | bool) for each in json.loads(value).values()
        )


def _listed(part):
    return part if isinstance(part, list) else [part]


@needs_specification
def test_the_specifications_own_rules_hold():
    model = json.loads((SPECIFICATION / "model-1.2.json").read_text(encoding="utf-8"))

    broken, judged = Rules(model, a_fleets_rows()).broken()

    assert judged > 200
    assert broken == []


@needs_specification
def test_the_rules_find_what_is_wrong():
    model = json.loads((SPECIFICATION / "model-1.2.json").read_text(encoding="utf-8"))
    rows = a_fleets_rows()
    rows[0] |= {
        "ListCost": "1.5",
        "ChargeCategory": "Gift",
        "PricingUnit": None,
        "BillingPeriodStart": None,
    }

    broken, _ = Rules(model, rows).broken()

    assert {
        "ListCost-C-009-C",
        "ChargeCategory-C-003-M",
        "PricingUnit-C-006-C",
        "BillingPeriodStart-C-003-M",
    } <= set(broken)

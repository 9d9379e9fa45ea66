"""Statements in the format of the FinOps Open Cost and Usage Specification (FOCUS) 1.2. Pure.
https://focus.finops.org

One row is one line of a statement (a job on one GPU model), or of what no job held: a charge of the
month, or of each of its days; and one line of what is paid beside it: corrections of closed months,
commitments for GPUs that were not there, booked differences to invoices. We are provider, publisher
and invoice issuer to our own teams, so the four costs are the showback's. BilledCost and
EffectiveCost are the statement's micro-dollars and sum to what the fleet paid; ListCost and
ContractedCost are price times quantity, as the specification demands, and differ from them by what
rounding moved. Time without a rate is no charge and has no row.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.figures import boundaries, pricing
from fleetwatch.figures.totals import WHY
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import months
from fleetwatch.reports.exports.tables import Cell, hours
from fleetwatch.reports.statement import MOMENT, TWELVE_PLACES, Shape, amount_or_none

Charge = dict[str, Cell]
NINE_PLACES = Decimal("0.000000001")
UNIT = "GPU-Hours"

# the order of the file
COLUMNS = (
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName",
    "BillingAccountType", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
    "CapacityReservationId", "CapacityReservationStatus", "ChargeCategory", "ChargeClass",
    "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountQuantity", "CommitmentDiscountStatus", "CommitmentDiscountType",
    "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingCurrency", "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice", "PricingQuantity",
    "PricingUnit", "ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId",
    "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory",
    "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName",
    "SubAccountType", "Tags",
    # ours, as the specification has custom columns
    "x_WastedCost",  # of BilledCost what is certain or probable waste; null = not judged
    "x_RecordedSince",  # since when there are figures, where that is within the charge's period
)  # fmt: skip
TAGS = ("user", "state", "project", "cost_centre")


def rows(contents: Iterable[Shape], *, by_day: bool = False) -> list[list[Cell]]:
    """One row per charge of statements, and of what the fleet's report has beside them, in the
    order of COLUMNS; with `by_day` usage has a row per day, and the sums are the same.
    """
    charges = (
        _account(content) | charge for content in contents for charge in _charges(content, by_day)
    )
    return [[charge.get(name) for name in COLUMNS] for charge in charges]


def _charges(content: Shape, by_day: bool) -> list[Charge]:
    """Of a statement its lines and its corrections: they sum to what it comes to with these. Of the
    fleet's report what is in no statement; with all statements it sums to what was paid.
    """
    is_fleet = "team" not in content
    lines = content["own_lines"] if is_fleet else content["lines"]
    days = _days_of(content) if by_day else ()
    return [
        *(charge for line in lines for charge in _usage(content, line, days)),
        *(
            _correction(content, line)
            for line in content["adjustments"]
            if not (is_fleet and line["team"])
        ),
        *(
            _undelivered(content, line)
            for line in content.get("commitments", [])
            if Decimal(line["missing_usd"])
        ),
        *(_booked(content, line) for line in content.get("invoice_lines", [])),
    ]


def _days_of(content: Shape) -> Sequence[Interval]:
    start, end = (datetime.fromisoformat(content[end]) for end in ("from", "to"))
    return boundaries.days(Interval(start, end), ZoneInfo(content["zone"]))


def _usage(content: Shape, line: Shape, days: Sequence[Interval]) -> Iterator[Charge]:
    """The line's charge; with the month's days one for each of its own. A version from before days
    were kept has the line as one.
    """
    if not line["priced_ms"]:
        return
    if not days or "days" not in line:
        yield _used(content, line)
        return
    for each in line["days"]:
        day = days[each["day"]]
        period: Charge = {
            "ChargePeriodStart": f"{day.start:{MOMENT}}",
            "ChargePeriodEnd": f"{day.end:{MOMENT}}",
            "x_RecordedSince": None,
        }
        # days of older versions say no waste
        yield _used(content, line | {"wasted_usd": None} | each) | period


def _used(content: Shape, line: Shape) -> Charge:
    """GPU time that was there, at the price that an hour of the line cost on average: its rate,
    where it had one.
    """
    what = f"job {line['job']}" if "job" in line else f"{line['state']} GPU time"
    tags = {name: line[name] for name in TAGS if line.get(name)}
    charge = _charge(content, "Usage", "Usage-Based", f"{line['gpu_model']}, {what}", tags)
    prices = _prices(
        line["gpu_model"], line["priced_ms"], Decimal(line["usd_per_gpu_hour"]), line["cost_usd"]
    )
    resource = (
        {"ResourceId": line["job"], "ResourceName": line["name"], "ResourceType": "GPU job"}
        if "job" in line
        else {}
    )
    ours: Charge = {
        "x_WastedCost": amount_or_none(line.get("wasted_usd")),
        "x_RecordedSince": content.get("recorded_since"),
    }
    return charge | prices | _consumed(prices["PricingQuantity"]) | resource | ours


def _correction(content: Shape, line: Shape) -> Charge:
    """What a closed month is judged to be now, in the month in which that was booked: hours at
    several rates, so without a price.
    """
    tags = {"cause": line["cause"]} | ({"state": line["state"]} if line["state"] else {})
    charge = _charge(
        content,
        "Usage",
        "Usage-Based",
        f"Correction of {line['corrects']}: {line['cause']}",
        tags,
        of=line["corrects"],
    )
    return charge | _cost(line["cost_usd"]) | _consumed(hours(line["gpu_ms"], NINE_PLACES))


def _undelivered(content: Shape, line: Shape) -> Charge:
    """What was paid for GPUs that were not there: no usage, and no purchase either, for it covers
    nothing to come.
    """
    price = Decimal(line["missing_usd"]) * pricing.HOUR_MS / line["missing_ms"]
    charge = _charge(
        content,
        "Adjustment",
        "Recurring",
        f"Committed, not delivered: {line['name'] or line['gpu_model']}",
        {},
    )
    return charge | _prices(
        line["gpu_model"], line["missing_ms"], price.quantize(TWELVE_PLACES), line["missing_usd"]
    )


def _booked(content: Shape, line: Shape) -> Charge:
    """A difference between an invoice and the ledger that somebody booked: dollars alone."""
    what = f"Invoice of {line['invoice_of']}: {line['label']}"
    charge = _charge(
        content, "Adjustment", "One-Time", what, {"reason": line["reason"]}, of=line["invoice_of"]
    )
    return charge | _cost(line["cost_usd"])


def _account(content: Shape) -> Charge:
    ours = content["organisation"]
    account: Charge = {
        "BillingAccountId": "fleetwatch",
        "BillingAccountName": ours,
        "BillingAccountType": "Organisation",
        "BillingCurrency": "USD",
        "PricingCurrency": "USD",
        "ProviderName": ours,
        "PublisherName": ours,
        "InvoiceIssuerName": ours,
        "ServiceCategory": "Compute",
        "ServiceName": "GPU fleet",
        "ServiceSubcategory": "Virtual Machines",
    }
    team = content.get("team")
    if team is None or team["slug"] in WHY:
        return account
    return account | {
        "SubAccountId": team["slug"],
        "SubAccountName": team["name"],
        "SubAccountType": "Team",
    }


def _charge(
    content: Shape, category: str, frequency: str, what: str, tags: Shape, *, of: str = ""
) -> Charge:
    """`of` is the month that the charge is of, where that may be another: what corrects one that
    was billed before says so.
    """
    is_correction = bool(of) and of != content["month"]
    start, end = _month(of, content["zone"]) if is_correction else (content["from"], content["to"])
    # the month's, also of a statement to date: what comes later is of the same period
    billing_start, billing_end = _month(content["month"], content["zone"])
    return {
        "BillingPeriodStart": billing_start,
        "BillingPeriodEnd": billing_end,
        "ChargePeriodStart": start,
        "ChargePeriodEnd": end,
        "ChargeCategory": category,
        "ChargeClass": "Correction" if is_correction else None,
        "ChargeFrequency": frequency,
        "ChargeDescription": what,
        "Tags": json.dumps(tags, ensure_ascii=False) if tags else None,
    }


def _month(name: str, zone: str) -> tuple[str, str]:
    organisation_zone = ZoneInfo(zone)
    month = boundaries.month(months.start(name, organisation_zone), organisation_zone)
    return f"{month.start:{MOMENT}}", f"{month.end:{MOMENT}}"


def _cost(cost_usd: str) -> Charge:
    """The four costs of a charge without a price."""
    names = (
        "BilledCost",
        "EffectiveCost",
        "ListCost",
        "ContractedCost",
        "PricingCurrencyEffectiveCost",
    )
    return dict.fromkeys(names, Decimal(cost_usd))


def _prices(gpu_model: str, priced_ms: int, price: Decimal, cost_usd: str) -> Charge:
    quantity = hours(priced_ms, NINE_PLACES)
    product = pricing.EXACT.multiply(price, quantity)
    names = (
        "ListUnitPrice",
        "ContractedUnitPrice",
        "PricingCurrencyListUnitPrice",
        "PricingCurrencyContractedUnitPrice",
    )
    return {
        **_cost(cost_usd),
        **dict.fromkeys(names, price),
        "ListCost": product,
        "ContractedCost": product,
        "PricingCategory": "Standard",
        "PricingQuantity": quantity,
        "PricingUnit": UNIT,
        "SkuId": f"gpu-hour/{gpu_model}",
        "SkuMeter": "GPU time",
        "SkuPriceId": f"gpu-hour/{gpu_model}/{price:f}",
        "SkuPriceDetails": json.dumps({"GpuCount": 1, "x_GpuModel": gpu_model}, ensure_ascii=False),
    }


def _consumed(quantity: Cell) -> Charge:
    return {"ConsumedQuantity": quantity, "ConsumedUnit": UNIT}

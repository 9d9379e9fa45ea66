"""Statements in the format of the FinOps Open Cost and Usage Specification (FOCUS) 1.2. Pure. https://focus.finops.org

One row is one line of a statement (a job on one GPU model), or of what no job held: a charge of the month. We are
provider, publisher and invoice issuer to our own teams, so the four costs are the showback's. BilledCost and EffectiveCost
are the statement's micro-dollars and sum to the fleet's; ListCost and ContractedCost are price times quantity, as the
specification demands, and differ from them by what rounding moved. Time without a rate is no charge and has no row.
"""

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from fleetwatch.costs import pricing
from fleetwatch.costs.totals import WHY
from fleetwatch.reports.exports.tables import Cell

Shape = dict[str, Any]
NINE_PLACES = Decimal("0.000000001")
UNIT = "GPU-Hours"

# name -> whether it may be null; the order of the file
COLUMNS: dict[str, bool] = {
    "AvailabilityZone": True, "BilledCost": False, "BillingAccountId": False, "BillingAccountName": True,
    "BillingAccountType": False, "BillingCurrency": False, "BillingPeriodEnd": False, "BillingPeriodStart": False,
    "CapacityReservationId": True, "CapacityReservationStatus": True, "ChargeCategory": False, "ChargeClass": True,
    "ChargeDescription": True, "ChargeFrequency": False, "ChargePeriodEnd": False, "ChargePeriodStart": False,
    "CommitmentDiscountCategory": True, "CommitmentDiscountId": True, "CommitmentDiscountName": True,
    "CommitmentDiscountQuantity": True, "CommitmentDiscountStatus": True, "CommitmentDiscountType": True,
    "CommitmentDiscountUnit": True, "ConsumedQuantity": True, "ConsumedUnit": True, "ContractedCost": False,
    "ContractedUnitPrice": True, "EffectiveCost": False, "InvoiceId": True, "InvoiceIssuerName": False, "ListCost": False,
    "ListUnitPrice": True, "PricingCategory": True, "PricingCurrency": True, "PricingCurrencyContractedUnitPrice": True,
    "PricingCurrencyEffectiveCost": True, "PricingCurrencyListUnitPrice": True, "PricingQuantity": True, "PricingUnit": True,
    "ProviderName": False, "PublisherName": False, "RegionId": True, "RegionName": True, "ResourceId": True,
    "ResourceName": True, "ResourceType": True, "ServiceCategory": False, "ServiceName": False, "ServiceSubcategory": False,
    "SkuId": True, "SkuMeter": True, "SkuPriceDetails": True, "SkuPriceId": True, "SubAccountId": True,
    "SubAccountName": True, "SubAccountType": True, "Tags": True,
}  # fmt: skip


def rows(contents: Iterable[Shape]) -> list[list[Cell]]:
    """One row per priced line of statements, and per own line of the fleet's report, in the order of COLUMNS."""
    found = []
    for content in contents:
        lines = content["lines"] if "team" in content else content["own_lines"]
        found += [_row(content, line) for line in lines if line["priced_ms"]]
    return [[row.get(name) for name in COLUMNS] for row in found]


def _row(content: Shape, line: Shape) -> dict[str, Cell]:
    return _account(content) | _charge(content, line) | _prices(line) | _resource(line) | _team(content)


def _account(content: Shape) -> dict[str, Cell]:
    ours = content["organisation"]
    return {
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


def _charge(content: Shape, line: Shape) -> dict[str, Cell]:
    what = f"job {line['job']}" if "job" in line else f"{line['state']} GPU time"
    tags = {"user": line["user"]} if line.get("user") else {"state": line["state"]} if "state" in line else {}
    return {
        "BillingPeriodStart": content["from"],
        "BillingPeriodEnd": content["to"],
        "ChargePeriodStart": content["from"],
        "ChargePeriodEnd": content["to"],
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ChargeDescription": f"{line['gpu_model']}, {what}",
        "Tags": json.dumps(tags, ensure_ascii=False) if tags else None,
    }


def _prices(line: Shape) -> dict[str, Cell]:
    """The price is what an hour of the line cost on average: its rate, where it had one."""
    quantity = (Decimal(line["priced_ms"]) / pricing.HOUR_MS).quantize(NINE_PLACES)
    price, cost = Decimal(line["usd_per_gpu_hour"]), Decimal(line["cost_usd"])
    product = pricing.EXACT.multiply(price, quantity)
    names = ("ListUnitPrice", "ContractedUnitPrice", "PricingCurrencyListUnitPrice", "PricingCurrencyContractedUnitPrice")
    return {
        **dict.fromkeys(names, price),
        "ListCost": product,
        "ContractedCost": product,
        "BilledCost": cost,
        "EffectiveCost": cost,
        "PricingCurrencyEffectiveCost": cost,
        "PricingCategory": "Standard",
        "PricingQuantity": quantity,
        "PricingUnit": UNIT,
        "ConsumedQuantity": quantity,
        "ConsumedUnit": UNIT,
        "SkuId": f"gpu-hour/{line['gpu_model']}",
        "SkuMeter": "GPU time",
        "SkuPriceId": f"gpu-hour/{line['gpu_model']}/{price:f}",
        "SkuPriceDetails": json.dumps({"GpuCount": 1, "x_GpuModel": line["gpu_model"]}, ensure_ascii=False),
    }


def _resource(line: Shape) -> dict[str, Cell]:
    if "job" not in line:
        return {}
    return {"ResourceId": line["job"], "ResourceName": line["name"], "ResourceType": "GPU job"}


def _team(content: Shape) -> dict[str, Cell]:
    if "team" not in content or content["team"]["slug"] in WHY:
        return {}
    return {"SubAccountId": content["team"]["slug"], "SubAccountName": content["team"]["name"], "SubAccountType": "Team"}

"""The pages that a search finds, by what they are called and looked for. Pure."""

from dataclasses import dataclass

from fleetwatch.accounts.permissions import Right


@dataclass(frozen=True, slots=True)
class Place:
    """A page by what it is called, the words that it is looked for by, and whose it is (None: of
    everybody who may open it).
    """

    name: str
    title: str
    words: str = ""
    right: Right | None = None


PLACES = (
    Place("me", "My jobs", "notifications own tokens"),
    Place("overview", "Overview", "home start spend"),
    Place("fleet", "Fleet", "map nodes gpus heat"),
    Place("idle", "Idle right now", "gpus"),
    Place("jobs", "Jobs"),
    Place("waste", "Waste", "idle breakdown"),
    Place("costs", "Costs", "explorer spend"),
    Place("capacity", "Capacity", "allocation what if queue commitments"),
    Place("findings", "Savings", "findings inbox"),
    Place("causes", "Causes"),
    Place("alerts", "Alerts", "incidents"),
    Place("rules", "Alert rules", "thresholds back-test"),
    Place("silences", "Silences", "mute maintenance"),
    Place("routes", "Routes", "who is told"),
    Place("actions", "Actions", "stop jobs drain"),
    Place("reports", "Reports", "statements months focus excel showback"),
    Place("budgets", "Budgets", "forecast"),
    Place("teams", "Teams", "showback statements members leads"),
    Place("status", "Status", "health lag workers"),
    Place("explain", "Explain a figure", "why these dollars"),
    Place("views", "Saved views"),
    Place("definitions", "What the numbers mean", "definitions states"),
    Place("glossary", "Glossary", "words"),
    Place("settings", "Settings"),
    Place("settings_general", "General settings", "organisation time zone access second factor"),
    Place("settings_pricing", "Pricing", "rates price currency energy kwh commitments"),
    Place("rates_calculator", "Cost of owned GPUs", "calculator tco", Right.MONEY),
    Place("rates_import", "Import rates", "csv", Right.MONEY),
    Place("mappings", "Teams and mapping", "rules cost centre project"),
    Place("settings_months", "Months and statements", "close free capacity"),
    Place("settings_agents", "Agents", "tokens enrolment install elastic"),
    Place("settings_channels", "Channels", "slack mail teams webhook pagerduty"),
    Place("settings_tokens", "API tokens"),
    Place("settings_policy", "Ledger policy", "thresholds what would change idle"),
    Place("settings_links", "Job links", "logs experiments W&B MLflow TensorBoard Grafana Loki"),
    Place("settings_retention", "Retention", "kept days"),
    Place("people", "People", "accounts roles invite", Right.PEOPLE),
    Place("audit", "Audit log", "", Right.PEOPLE),
)

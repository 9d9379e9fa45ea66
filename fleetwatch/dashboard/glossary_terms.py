"""What a word of the glossary is, the words of alerts and their messages, and those of what is
paid. Pure.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A word, what it means, and the page where it is seen: its address' name, and what narrows it
    to the word.
    """

    slug: str
    word: str
    meaning: str
    seen: str
    narrowed: str = ""

    @property
    def place(self) -> str:
        """What the page is called."""
        return PLACES[self.seen]


# the pages of the words, as the rail and the settings call them
PLACES = {
    "agents": "Agents",
    "alerts": "Alerts",
    "capacity": "Capacity",
    "budgets": "Budgets",
    "causes": "Causes",
    "costs": "Costs",
    "findings": "Savings",
    "fleet": "Fleet",
    "home": "Overview",
    "jobs": "Jobs",
    "mappings": "Mapping rules",
    "reports": "Reports",
    "routes": "Routes",
    "rules": "Rules",
    "settings_channels": "Channels",
    "settings_general": "General",
    "settings_months": "Months and statements",
    "settings_policy": "Policy",
    "settings_pricing": "Pricing",
    "silences": "Silences",
    "status": "Status",
    "waste": "Waste",
}

OF_ALERTS = (
    Term(
        "escalation",
        "Escalation",
        "An incident that nobody acknowledged in time is told to the next: first to the owner,"
        " then to the team, then to who is on call. After how long is set for each rule.",
        "rules",
    ),
    Term(
        "kept",
        "Kept",
        "Of a message: it stands under Messages and was sent nowhere, as its channel is a"
        " delivery log. Nobody got it.",
        "settings_channels",
    ),
    Term(
        "lost-windows",
        "Lost windows",
        "Windows that an agent measured and could not hand over: its queue on disk was full, or"
        " the hub refused them. Their time is unobserved.",
        "agents",
    ),
    Term(
        "raised",
        "Raised",
        "When FleetWatch opened an incident. What it is about may have begun earlier: that is"
        " its since.",
        "alerts",
    ),
    Term(
        "reminder",
        "Reminder",
        "The same message once more, while an incident goes on and nobody acknowledged it. How"
        " often is set for each rule.",
        "rules",
    ),
    Term(
        "silent",
        "Silent",
        "Of a node: nothing came from its agent for ten minutes. Its GPUs stay on the bill as"
        " unobserved until it reports again or is removed.",
        "agents",
        "?health=silent",
    ),
    Term(
        "since",
        "Since",
        "When what an incident or a finding is about began, by the data: dollars count from"
        " then on, not from when it was noticed.",
        "alerts",
    ),
)

OF_MONEY = (
    Term(
        "above-contract",
        "Above contract",
        "What an invoice bills for hours that commitments cover, beyond their contract price: ask"
        " the provider to credit it. It is in no team's statement.",
        "reports",
    ),
    Term(
        "break-even",
        "Break-even",
        "The share of its hours that a GPU has to be used from which on a commitment costs less"
        " than the same hours on demand.",
        "capacity",
    ),
    Term(
        "contract-price",
        "Contract price",
        "What a commitment says of a GPU-hour. It is due whether the GPU is there, used or not,"
        " and charges no team: that is the rate's.",
        "settings_pricing",
        "#commitments",
    ),
    Term(
        "days-missing",
        "Days missing",
        "Of a budget: it is not passed, and days of the month were not recorded, so nobody can say"
        " whether it is kept. The API calls it a partial month.",
        "budgets",
    ),
    Term(
        "invoice",
        "Invoice",
        "What a provider billed for a month, imported as a file and set beside the ledger: each"
        " difference is of hours, of the rate, or on one side only.",
        "reports",
    ),
    Term(
        "run-rate",
        "Run rate",
        "What a day cost on the mean of the last seven full days. Where there is no forecast the"
        " rest of the month is shown at it.",
        "budgets",
    ),
)

"""The words of the pages, each with what it means here: /docs/glossary, and what search finds by
them. Pure.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A word, what it means, and the page that says more ("" = none): an address' name."""

    slug: str
    word: str
    meaning: str
    more: str = ""


TERMS = (
    Term(
        "adjustment",
        "Adjustment",
        "A line in the running month that corrects a closed one. The closed month's own figures"
        " never move.",
        "settings_months",
    ),
    Term(
        "allocation",
        "Allocation",
        "That a job holds a GPU, from when to when, as its scheduler says it; on hosts without one,"
        " a process with a GPU context.",
    ),
    Term(
        "cause",
        "Cause",
        "Why time was wasted: one for each GPU and five minutes, by the first rule that matches,"
        " with the numbers that it rests on.",
        "causes",
    ),
    Term(
        "certain",
        "Certain, probable, potential",
        "Three tiers of waste. Certain: nothing ran at all. Probable: the job held the GPU and did"
        " too little. Potential: might be saved, and is never added to what is called wasted.",
        "definitions",
    ),
    Term(
        "commitment",
        "Commitment",
        "GPUs that are paid for, used or not. What of them was not there is a line of its own in"
        " the fleet's report.",
        "settings_pricing",
    ),
    Term(
        "coverage",
        "Coverage",
        "The share of GPU time that some agent observed. Shares of waste are of observed time; the"
        " coverage stands beside them.",
    ),
    Term(
        "efficiency",
        "Efficiency",
        "How much of what the GPU can do in practice its active time reached, by the best signal"
        " that was read: SMs, tensor cores, memory bandwidth, else power.",
        "definitions",
    ),
    Term(
        "finding",
        "Finding",
        "A waste that somebody can end: one cause of one job or machine, with evidence, steps and"
        " what they would save.",
        "findings",
    ),
    Term(
        "focus",
        "FOCUS",
        "The FinOps Open Cost and Usage Specification: one table of cost that tools of several"
        " makers read.",
        "reports",
    ),
    Term(
        "free",
        "Free capacity",
        "GPU time that no job held and nothing used. It is nobody's waste; statements keep it on a"
        " line of its own, or spread it where that was chosen.",
        "settings_months",
    ),
    Term("gpu-hour", "GPU-hour", "One GPU for one hour, whatever it did in it."),
    Term(
        "idle",
        "Idle",
        "A job held the GPU, and it did nothing for so long that nobody expects it to go on: 15"
        " minutes for batch jobs, 30 for interactive ones, 60 for services.",
        "definitions",
    ),
    Term(
        "ledger",
        "Ledger",
        "The book of GPU time: each millisecond of each GPU in exactly one of nine states. All"
        " figures are sums of it.",
        "definitions",
    ),
    Term(
        "mapping",
        "Mapping rule",
        "A rule that says whose a job's time is: user, account, namespace or label, to team,"
        " project or cost centre.",
        "mappings",
    ),
    Term(
        "mig",
        "MIG instance",
        "A part of one GPU that the card itself divides. It is never added to the number of GPUs.",
    ),
    Term("node", "Node", "A machine with GPUs, under the name by which its agent reports."),
    Term(
        "observed",
        "Observed",
        "A window of 10 seconds that an agent sent. What nobody observed is never counted as idle,"
        " and never as useful.",
    ),
    Term(
        "orphaned",
        "Orphaned",
        "A GPU that no job holds, and a process or its memory still keeps.",
        "definitions",
    ),
    Term(
        "policy",
        "Policy",
        "All thresholds by which the ledger judges, as one version. Every figure names the policy"
        " that it was judged by.",
        "settings_policy",
    ),
    Term(
        "pue",
        "PUE",
        "Energy at the building's meter by that of the machines: 1.3 means 30 % for cooling and"
        " power supply.",
        "settings_pricing",
    ),
    Term(
        "rate",
        "Rate",
        "What a GPU-hour costs, from when to when. The most specific holds: GPU, node, pool, model"
        " with class and region, model.",
        "settings_pricing",
    ),
    Term(
        "realised",
        "Realised savings",
        "What a fix brought, measured: the runs after it beside those before.",
        "findings",
    ),
    Term(
        "recoverable",
        "Recoverable",
        "What fixing the findings could save, as a range. This is an estimate; realised savings are"
        " measured.",
        "findings",
    ),
    Term(
        "showback",
        "Showback",
        "Telling a team what it used and what that cost. Chargeback is the same with money moved.",
        "reports",
    ),
    Term(
        "stalled",
        "Stalled",
        "A job held the GPU and waited: for data, for other ranks, between steps.",
        "definitions",
    ),
    Term(
        "statement",
        "Statement",
        "A team's month: GPU-hours at their rates, line by line, to the micro-dollar. A correction"
        " is a new version; the old one stays.",
        "reports",
    ),
    Term(
        "underused",
        "Underused",
        "The GPU worked, below what it can do in practice.",
        "definitions",
    ),
    Term(
        "unobserved",
        "Unobserved",
        "Time that no agent reported. A silent node stays on the bill.",
        "definitions",
    ),
    Term(
        "useful",
        "Useful",
        "The GPU worked at what it can do in practice.",
        "definitions",
    ),
    Term(
        "useful-share",
        "Useful share of spend",
        "Dollars of useful time by all dollars. Time of which only a running kernel is known is in"
        " neither.",
        "definitions",
    ),
    Term(
        "utilisation",
        "Utilisation",
        "The share of time in which some kernel ran. It says nothing of how much of the GPU that"
        " kernel used.",
    ),
    Term(
        "wasted",
        "Wasted",
        "Certain and probable waste together. Potential is never in it.",
        "definitions",
    ),
)

"""The words of the pages, each with what it means here: /docs/glossary, and what search finds by
them. Pure.
"""

from fleetwatch.dashboard.glossary_terms import OF_ALERTS, OF_MONEY, Term

_OF_PAGES = (
    Term(
        "accepted",
        "Accepted",
        "Of a finding: somebody takes it on. It stays in the inbox until it is fixed.",
        "findings",
        "?status=accepted",
    ),
    Term(
        "acknowledge",
        "Acknowledge, snooze",
        "To take an incident on: nobody else is notified. A snooze does so until an hour"
        " that you choose, and ends by itself.",
        "alerts",
    ),
    Term(
        "active",
        "Active",
        "Of a GPU: a kernel ran or work was measured. Active time is useful as far as it is"
        " efficient, and underused for the rest.",
        "home",
    ),
    Term(
        "adjustment",
        "Adjustment",
        "An entry in the current month that corrects a closed one. The figures of the closed"
        " month never change.",
        "settings_months",
    ),
    Term(
        "agent",
        "Agent",
        "The program on each node that reads its GPUs and reports windows of 10 seconds.",
        "agents",
    ),
    Term(
        "allocation",
        "Allocation",
        "The period in which a job holds a GPU, as reported by the scheduler; on hosts"
        " without one, as long as a process has a GPU context.",
        "jobs",
    ),
    Term(
        "at-stake",
        "At stake",
        "What a finding of a machine or of the queue affected in the period, in dollars;"
        " where only a part of that could have been used, a range.",
        "findings",
    ),
    Term(
        "back-test",
        "Back-test",
        "A rule, or a policy, tried on recorded history: what it would have opened or"
        " counted. It changes nothing.",
        "rules",
    ),
    Term(
        "behind",
        "Behind",
        "How long ago the newest data of a node ended, the lag of its agent. Seconds are usual; an"
        " agent that can't reach the hub keeps its data and catches up.",
        "agents",
    ),
    Term(
        "budget",
        "Budget, forecast",
        "What a team or the fleet may spend in a month, and what is expected to be spent at its"
        " end, with a range that holds 8 of 10 outcomes; from two weeks of history on.",
        "budgets",
    ),
    Term(
        "burning",
        "Burning",
        "Dollars an hour that are being wasted right now by what an incident is about, at"
        " current rates. It stops when the incident is over.",
        "alerts",
    ),
    Term(
        "unverified",
        "Busy, unverified",
        "The part of useful time of which utilisation alone tells. Left out of every efficiency"
        " figure.",
        "costs",
        "?group_by=team&state=unverified",
    ),
    Term(
        "capacity",
        "Capacity of the savings inbox",
        "GPU time that no job could use or got, in dollars: broken GPUs, and GPUs that"
        " were free while jobs waited. Shown beside what jobs could save, and never added"
        " to it.",
        "findings",
    ),
    Term(
        "cause",
        "Cause",
        "Why GPU time was wasted. Each GPU and five-minute interval has one: the first rule"
        " that matches, with the numbers behind it.",
        "causes",
    ),
    Term(
        "certain",
        "Certain, probable, potential",
        "Tiers of waste. Certain: idle with exactly zero activity, and orphaned. Probable: the"
        " rest of idle, and stalled batch and interactive jobs. Potential: underused, services"
        " that wait for requests, free GPUs; never added to wasted.",
        "waste",
    ),
    Term(
        "channel",
        "Channel, route",
        "A channel is where messages go: Slack, e-mail, Teams, PagerDuty, a webhook, or"
        " the delivery log, which reaches nobody. A route says which incidents go to which"
        " channels.",
        "routes",
    ),
    Term(
        "skew",
        "Clock skew",
        "How far a node's clock is off the hub's. Its times are corrected by that.",
        "agents",
    ),
    Term(
        "closed-month",
        "Closed month",
        "A month whose figures no longer change: what is found later is booked as an adjustment.",
        "settings_months",
    ),
    Term(
        "commitment",
        "Commitment",
        "Reserved GPUs that are paid for whether used or not. Reserved hours that were not"
        " delivered are a separate line in the fleet report.",
        "settings_pricing",
        "#commitments",
    ),
    Term(
        "confidence",
        "Confidence",
        "How sure a finding is of its cause: high, medium or low, by the rule that found it.",
        "findings",
    ),
    Term(
        "coverage",
        "Coverage",
        "The share of GPU time reported by an agent. Waste percentages beside dollars are of the"
        " cost, those of time are of observed time.",
        "waste",
    ),
    Term(
        "digest",
        "Digest",
        "The weekly summary of spend, waste and what could save most: of the fleet, a"
        " team or a person.",
        "reports",
    ),
    Term(
        "dismissed",
        "Agreed as not waste",
        "Somebody said of a finding or an incident, with a reason, that this is not waste: by the"
        " button Not waste, until a day or until somebody ends that; or an operator for all that"
        " matches, under Silences. The ledger counts its time on as it did; savings and alerts do"
        " not. The API calls such findings dismissed, until a day exempt, and what an operator set"
        " an exemption.",
        "findings",
        "?status=dismissed",
    ),
    Term(
        "door",
        "Door",
        "The part of the hub that takes batches from agents. It answers once a batch is stored.",
        "status",
    ),
    Term(
        "efficiency",
        "Efficiency",
        "How much of a GPU's practical peak its active time reached, by the best available"
        " signal: SM or tensor-core activity, memory bandwidth, otherwise power.",
        "home",
    ),
    Term(
        "finding",
        "Finding",
        "An opportunity to cut waste: one cause on one job or machine, with evidence, steps"
        " to fix it and the estimated saving.",
        "findings",
    ),
    Term(
        "fixed",
        "Fixed",
        "Of a finding: somebody says that the cause is gone. Later runs are compared with"
        " earlier ones, and tell what it saved.",
        "findings",
        "?status=fixed",
    ),
    Term(
        "focus",
        "FOCUS",
        "FinOps Open Cost and Usage Specification: a vendor-neutral table of cost and usage"
        " data that FinOps tools can import. BilledCost of a team is its cost and corrections"
        " at the rates, and EffectiveCost the same. The fleet's file also bills what commitments"
        " did not deliver and what was booked of invoices, and its EffectiveCost has committed"
        " hours at the contract price. BilledCost is so never the provider's invoice: that"
        " stands beside the ledger on the month's own page. The organisation, which charges its"
        " teams, is provider, publisher and invoice issuer in every row: a contract's Source is"
        " a note in free text, and an invoice names its issuer for its own lines.",
        "reports",
    ),
    Term(
        "free",
        "Free capacity",
        "Unallocated GPU time that nothing used. It is charged to no team: statements show it on"
        " a separate line, or spread it over teams if that is configured.",
        "costs",
        "?group_by=state&state=free",
    ),
    Term(
        "gb",
        "GB",
        "Of memory 2³⁰ bytes, as NVIDIA counts its cards: an H100 80GB has 80 GB here and 81,559"
        " MiB in nvidia-smi. Of transfers per second 10⁹, as links are sold.",
        "fleet",
        "?view=table",
    ),
    Term(
        "gpu-hour",
        "GPU-hour",
        "One GPU for one hour, whatever it did in it.",
        "costs",
    ),
    Term(
        "hot",
        "Hot batch",
        "A batch of windows as an agent sent it, not sealed yet.",
        "status",
    ),
    Term(
        "idle",
        "Idle",
        "A job held the GPU without using it for longer than the idle threshold: 15 minutes"
        " for batch jobs, 30 for interactive ones, 60 for services.",
        "costs",
        "?group_by=team&state=idle",
    ),
    Term(
        "idle-power",
        "Idle power",
        "What a GPU draws while nothing uses it, learned or set. Power well above it"
        " shows work that utilisation misses.",
        "fleet",
        "?view=table",
    ),
    Term(
        "incident",
        "Incident, rule",
        "A rule says what must not last: a threshold, and for how long. An incident is"
        " one time that it did: it fires, is acknowledged or snoozed, and is over when the"
        " data says so.",
        "alerts",
    ),
    Term(
        "kind",
        "Job kind",
        "Batch, interactive (a notebook or shell) or service: by it a job may be quiet"
        " for 15, 30 or 60 minutes before it is idle.",
        "jobs",
    ),
    Term(
        "ledger",
        "Ledger",
        "The record of all GPU time: every millisecond of every GPU is in exactly one of nine"
        " states. Bars and lists have eleven: two are parts, busy, unverified (of useful) and"
        " waiting (of stalled). All figures are sums of it.",
        "status",
    ),
    Term(
        "list-price",
        "List price",
        "A rate that ships with FleetWatch, with its source and date, until you set your own.",
        "settings_pricing",
    ),
    Term(
        "mapping",
        "Mapping rule",
        "A rule that assigns the cost of jobs by user, account, namespace or label to a team,"
        " project or cost centre.",
        "mappings",
    ),
    Term(
        "mig",
        "MIG instance",
        "A hardware partition of one GPU (Multi-Instance GPU). It is never counted as a GPU"
        " of its own.",
        "fleet",
    ),
    Term(
        "no-team",
        "No team",
        "What is in no team's statement: unallocated GPUs, and jobs whose user or account no"
        " mapping rule gives a team. All teams and no team sum to the fleet.",
        "costs",
        "?group_by=team",
    ),
    Term(
        "node",
        "Node",
        "A machine with GPUs, under the name by which its agent reports.",
        "fleet",
        "?view=table",
    ),
    Term(
        "observed",
        "Observed",
        "Time covered by 10-second windows from an agent. Unobserved time is never counted as"
        " idle, and never as useful.",
        "home",
    ),
    Term(
        "orphaned",
        "Orphaned",
        "A GPU held by no job, on which a leftover process or its memory remains.",
        "costs",
        "?group_by=node&state=orphaned",
    ),
    Term(
        "overdue",
        "Overdue",
        "An hour of a node that is over, and whose figures, or seal, are not done yet.",
        "status",
    ),
    Term(
        "pattern",
        "Pattern",
        "Findings of the same cause in jobs of one name and owner, put together: wasting"
        " now, recurring, or one-off.",
        "findings",
    ),
    Term(
        "pending",
        "Pending",
        "Of an incident: its condition holds, but not for as long as the rule asks;"
        " nobody is notified. Of a job: it waits in the scheduler's queue.",
        "alerts",
    ),
    Term(
        "policy",
        "Policy",
        "The thresholds by which GPU time is classified, versioned. Every figure names the"
        " policy version it was computed with.",
        "settings_policy",
    ),
    Term(
        "post",
        "Post",
        "To judge a node's hours by the policy and write their entries in the ledger;"
        " repeated when data comes late.",
        "status",
    ),
    Term(
        "pue",
        "PUE",
        "Power usage effectiveness: energy at the facility meter divided by that of the IT"
        " equipment. 1.3 means 30 % overhead for cooling and power distribution.",
        "settings_pricing",
        "#energy",
    ),
    Term(
        "quiet",
        "Quiet",
        "The highest activity of a 10-second window is at most 2 % and nothing"
        " contradicts. A quiet run is stalled at first, and idle once it has lasted long"
        " enough.",
        "settings_policy",
    ),
    Term(
        "rank",
        "Rank",
        "One of the processes of a distributed job. They wait for each other: the slowest"
        " holds up all.",
        "causes",
    ),
    Term(
        "rate",
        "Rate",
        "The price of a GPU-hour and its validity period. The most specific rate applies:"
        " GPU, node, pool, model with class and region, model.",
        "settings_pricing",
    ),
    Term(
        "realised",
        "Realised savings",
        "Measured savings of a fix: runs after it compared with runs before.",
        "findings",
    ),
    Term(
        "recoverable",
        "Recoverable",
        "Estimated savings if the open and snoozed findings were fixed, as a range. Realised"
        " savings are measured.",
        "findings",
    ),
    Term(
        "seal",
        "Seal",
        "To pack the batches of an hour that is over into columns, without loss; what is"
        " sealed takes a fraction of the space.",
        "status",
    ),
    Term(
        "showback",
        "Showback, chargeback",
        "Showback: showing a team what it used and what that cost. Chargeback: billing it to"
        " the team.",
        "reports",
    ),
    Term(
        "silence",
        "Silence",
        "A silence notifies nobody of the incidents that match it until it ends. They count on,"
        " unlike what is agreed as not waste.",
        "silences",
    ),
    Term(
        "single-sign-on",
        "Single sign-on",
        "People log in at the organisation's own provider, by OpenID Connect, or with the names"
        " and passwords of its directory (LDAP). Settings of the hub switch it on.",
        "settings_general",
    ),
    Term(
        "sm",
        "SM, tensor activity",
        "The share of time in which the GPU's streaming multiprocessors, or its tensor"
        " cores, worked: what utilisation does not say.",
        "fleet",
        "?view=table",
    ),
    Term(
        "spool",
        "Spool",
        "The folder on a node where its agent keeps what it could not send yet: pages say waiting"
        " on disk. At its cap the oldest is dropped, and counted as lost windows.",
        "agents",
    ),
    Term(
        "stalled",
        "Stalled",
        "A job held the GPU and was waiting: for input data, for other ranks, between steps.",
        "costs",
        "?group_by=team&state=stalled",
    ),
    Term(
        "starting",
        "Starting",
        "The quiet time at the start of a job that then begins to work: up to 15 minutes, 10 for"
        " interactive jobs, 30 for services.",
        "costs",
        "?group_by=team&state=starting",
    ),
    Term(
        "statement",
        "Statement",
        "A team's monthly cost report: GPU-hours at their rates, line by line, to the"
        " micro-dollar. A correction makes a new version; earlier versions are kept.",
        "reports",
    ),
    Term(
        "unallocated",
        "Unallocated",
        "GPU time that no job held, whatever its state: free, orphaned, unavailable or"
        " unobserved. A line of its own beside jobs, users and teams.",
        "costs",
        "?group_by=job",
    ),
    Term(
        "unavailable",
        "Unavailable",
        "There is evidence that the GPU cannot work: lost, drained, driver missing.",
        "costs",
        "?group_by=node&state=unavailable",
    ),
    Term(
        "underused",
        "Underused",
        "The GPU was active below its practical peak.",
        "costs",
        "?group_by=team&state=underused",
    ),
    Term(
        "unobserved",
        "Unobserved",
        "Time for which no agent reported. Silent nodes are still billed.",
        "costs",
        "?group_by=node&state=unobserved",
    ),
    Term(
        "useful",
        "Useful",
        "The GPU was active at what it can reach in practice.",
        "costs",
        "?group_by=team&state=useful",
    ),
    Term(
        "useful-share",
        "Useful share of cost",
        "Cost of useful time divided by total cost. Time known only to have had a kernel"
        " running is in neither.",
        "home",
    ),
    Term(
        "utilisation",
        "Utilisation",
        "The share of time in which at least one kernel was running. It does not say how much"
        " of the GPU the kernel used.",
        "jobs",
    ),
    Term(
        "waiting",
        "Waiting",
        "The part of stalled time in which services wait for requests: no waste, but potential.",
        "costs",
        "?group_by=team&state=waiting",
    ),
    Term(
        "wasted",
        "Wasted",
        "Certain plus probable waste. Potential is never included.",
        "waste",
    ),
    Term(
        "what-if",
        "What-if",
        "The last weeks of jobs replayed on more or fewer GPUs: how long they would have"
        " waited, and what that costs.",
        "capacity",
    ),
    Term(
        "window",
        "Window",
        "Ten seconds of readings of one GPU: the smallest piece that is judged.",
        "settings_policy",
    ),
    Term(
        "worker",
        "Worker",
        "The process that works in the background: it posts, seals, finds causes and sends. It"
        " works down rows in the database: stopped and started again it loses nothing.",
        "status",
    ),
    Term(
        "xid",
        "XID",
        "The driver's number of a GPU error, as in the kernel log. Some mean that the GPU"
        " cannot work until it is reset.",
        "fleet",
        "?view=table",
    ),
)

TERMS = tuple(sorted((*_OF_PAGES, *OF_ALERTS, *OF_MONEY), key=lambda term: term.word.lower()))

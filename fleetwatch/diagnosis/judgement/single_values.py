"""Windows of senders that tell one value of each: read as one reading, as the ledger reads them.
Pure.

Our agent tells how many of its readings spin, and their lowest and highest. A scrape or an import
that tells a mean alone would else be read as work that nobody can judge, where the ledger says that
the GPU only waited.
"""

import numpy as np

from fleetwatch.ledger.judgement.activity import sent_spin, spin_fraction
from fleetwatch.ledger.judgement.observations import Columns, Floats, Windows
from fleetwatch.ledger.policy import Policy

SPIN = "spin_fraction"
# What is not told -> what speaks for it.
SPEAKS = {"util_p5": "util_mean", "power_max_w": "power_w"}


def filled(windows: Windows, *, idle_w: Floats, limit_w: Floats) -> dict[str, Floats]:
    """The windows' columns with these; `idle_w` and `limit_w` per window, NaN where not known.

    What is told stays as it is, but a share of busy-waiting that can't be (ledger's activity).
    """
    columns = Columns(windows)
    columns_with = dict(windows.columns)
    if np.isnan(sent_spin(columns, Policy())).any():
        columns_with[SPIN] = spin_fraction(windows, idle_w=idle_w, limit_w=limit_w, policy=Policy())
    for name, other in SPEAKS.items():
        own = columns[name]
        if np.isnan(own).any():
            columns_with[name] = np.where(np.isnan(own), columns[other], own)
    return columns_with

#!/usr/bin/env python3
"""One line on what a job made of its GPUs, as the hub knows it now: jobsummary.py ENV_FILE TOKEN_FILE.

Called by epilog.sh with Slurm's variables. Prints nothing where it can't tell: on any but the job's first node, without
GPUs, without an answer within TIMEOUT_S. Always ends with status 0. Python >= 3.8, standard library only.
"""

import datetime
import json
import os
import re
import sys
import urllib.parse
import urllib.request

TIMEOUT_S = 2
MAX_BYTES = 1024 * 1024
MARGIN = datetime.timedelta(hours=1)  # the hub counts whole hours
LONGEST = datetime.timedelta(days=60)
HOUR_MS = 3600000


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token goes nowhere but to the hub it was given for."""

    def redirect_request(self, *_):
        return None


def line(job):
    """The sentence about the hub's answer; "" when the job had no GPU time that the hub knows."""
    hours = job["capacity_ms"] / HOUR_MS
    if not hours:
        return ""
    parts = ["%.1f GPU-hours" % hours]
    if job.get("efficiency") is not None:
        parts.append("%d %% efficient" % round(job["efficiency"] * 100))
    wasted, cost = job["waste"]["wasted"], job["cost_usd"]["total"]
    parts.append("%.1f GPU-hours wasted" % wasted["gpu_hours"] + (" ($%.2f of $%.2f)" % (wasted["usd"], cost) if cost else ""))
    if job.get("coverage") is not None and job["coverage"] < 0.95:
        parts.append("%d %% observed" % round(job["coverage"] * 100))
    return "FleetWatch: job %s so far: %s" % (job["id"], ", ".join(parts))


def is_first_node(environment):
    """Whether this node is the first of the job's: each of them runs the epilog, one is to speak."""
    nodes, here = environment.get("SLURM_JOB_NODELIST", ""), environment.get("SLURMD_NODENAME", "")
    first = re.sub(r"\[([^\],-]+)[^\]]*\]", r"\1", re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes).group())
    return not nodes or not here or first == here


def address(server, environment, now):
    """The job's address at the hub, over its whole life."""
    started = environment.get("SLURM_JOB_START_TIME", "")
    since = datetime.datetime.fromtimestamp(int(started), datetime.timezone.utc) if started.isdigit() else now - LONGEST
    period = {"from": max(since, now - LONGEST) - MARGIN, "to": now + MARGIN}
    query = urllib.parse.urlencode({name: at.strftime("%Y-%m-%dT%H:%M:%SZ") for name, at in period.items()})
    cluster = environment.get("SLURM_CLUSTER_NAME") or "default"
    job = "slurm/%s/%s" % (urllib.parse.quote(cluster, safe=""), urllib.parse.quote(environment["SLURM_JOB_ID"], safe=""))
    return "%s/api/v1/jobs/%s?%s" % (server.rstrip("/"), job, query)


def settings(path):
    """The NAME=value lines of a file."""
    with open(path, encoding="utf-8") as file:
        pairs = [row.strip().partition("=") for row in file if "=" in row and not row.lstrip().startswith("#")]
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def main(arguments, environment):
    if len(arguments) != 2 or not is_first_node(environment):
        return
    with open(arguments[1], encoding="ascii") as file:
        token = file.read(1024).strip()
    url = address(settings(arguments[0])["FLEETWATCH_SERVER"], environment, datetime.datetime.now(datetime.timezone.utc))
    if not url.startswith(("http://", "https://")):
        return
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token, "Accept": "application/json"})
    with urllib.request.build_opener(NoRedirect).open(request, timeout=TIMEOUT_S) as answer:
        print(line(json.loads(answer.read(MAX_BYTES))))


if __name__ == "__main__":
    try:
        main(sys.argv[1:], os.environ)
    except Exception:  # a summary is worth less than a job: whatever goes wrong, the epilog goes on
        sys.exit(0)

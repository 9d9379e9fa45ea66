#!/usr/bin/env python3
"""Writes one line on what a job made of its GPUs into the job's output: jobsummary.py ENV_FILE
TOKEN_FILE [SECONDS].

Called by epilog.sh with Slurm's variables. Comes back at once: the last batch of a job reaches the
hub half a minute after its end, so a process of its own waits for it, SECONDS at most, and takes
what there is then. Writes nothing where it can't tell: on any but the job's first node, without
GPUs, without an answer. Always ends with status 0. Python >= 3.8, standard library only.
"""

import datetime
import json
import os
import re
import socket
import stat
import sys
import time
import urllib.parse
import urllib.request

WAIT_S = 120
PAUSE_S = 5
TIMEOUT_S = 10
MAX_BYTES = 1024 * 1024
MARGIN = datetime.timedelta(hours=1)  # the hub counts whole hours
LONGEST = datetime.timedelta(days=60)
HOUR_MS = 3600000
ROUNDING_MS = 1000  # Slurm tells whole seconds
NO_TASK = 4294967294  # what Slurm writes for %a where the job is no array's
MAX_WIDTH = 10


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token goes nowhere but to the hub it was given for."""

    def redirect_request(self, *_):
        return None


def line(job, is_complete):
    """The sentence about the hub's answer; "" when the job had no GPU time that the hub knows."""
    hours = job["capacity_ms"] / HOUR_MS
    if not hours:
        return ""
    parts = [amount(hours)]
    if job.get("efficiency") is not None:
        parts.append("%d %% efficient" % round(job["efficiency"] * 100))
    wasted = job["waste"]["wasted"]
    cost = job["cost_usd"]["total"]
    parts.append(
        amount(wasted["gpu_hours"])
        + " wasted"
        + (" ($%.2f of $%.2f)" % (wasted["usd"], cost) if cost else "")
    )
    if job.get("coverage") is not None and job["coverage"] < 0.95:
        parts.append("%d %% observed" % round(job["coverage"] * 100))
    return "FleetWatch: job %s%s: %s" % (
        job["id"],
        "" if is_complete else " so far",
        ", ".join(parts),
    )


def amount(hours):
    """GPU-hours; below one of them GPU-minutes."""
    return "%.1f GPU-hours" % hours if hours >= 1 else "%.1f GPU-minutes" % (hours * 60)


def is_complete(job, environment):
    """Whether the hub knows the job's end, and of each of its GPUs all of the last run."""
    start_ms = moment_ms(job.get("start_at"))
    end_ms = moment_ms(job.get("end_at"))
    if start_ms is None or end_ms is None:
        return False
    gpus = max(gpu_count(environment), len(job.get("gpus") or ()))
    return job["capacity_ms"] >= max(0, end_ms - start_ms - ROUNDING_MS) * gpus


def was_requeued(job, environment):
    """Whether the job runs again, or did, since the epilog's run of it: that one's epilog is to
    speak.
    """
    run = environment.get("SLURM_JOB_RESTART_COUNT", "")
    return run.isdigit() and job.get("restarts", 0) > int(run)


def gpu_count(environment):
    """The job's GPUs, if every node of it has as many as this one."""
    here = len([gpu for gpu in environment.get("SLURM_JOB_GPUS", "").split(",") if gpu])
    nodes = environment.get("SLURM_JOB_NUM_NODES", "")
    return max(1, here * (int(nodes) if nodes.isdigit() else 1))


def moment_ms(text):
    """Milliseconds of the API's time; None for null."""
    return (
        None
        if not text
        else datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000
    )


def is_first_node(environment):
    """Whether this node is the first of the job's: each of them runs the epilog, one is to speak.

    No, where nobody can tell.
    """
    if (
        environment.get("SLURM_HET_JOB_ID", environment["SLURM_JOB_ID"])
        != environment["SLURM_JOB_ID"]
    ):
        return False  # the output is the first component's
    # the first: from 23.02 on
    nodes = environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST") or ""
    if not nodes:
        return environment.get("SLURM_JOB_NUM_NODES") == "1"
    first = re.sub(
        r"\[([^\],-]+)[^\]]*\]", r"\1", re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes).group()
    )
    return first == (environment.get("SLURMD_NODENAME") or short_host_name())


def short_host_name():
    return socket.gethostname().split(".")[0]


def output(environment, job):
    """The path of the job's output: the pattern that Slurm's variables hold, or its default, with
    the job's facts in it.

    Slurm tells an epilog neither the job's name nor its array's; the hub does.
    """
    labels = job.get("labels") or {}
    array = environment.get("SLURM_ARRAY_JOB_ID") or labels.get("array_job")
    task = environment.get("SLURM_ARRAY_TASK_ID") or labels.get("array_task")
    usual = "slurm-%A_%a.out" if array else "slurm-%j.out"
    pattern = environment.get("SLURM_JOB_STDOUT") or usual
    path = expanded(pattern, facts(environment, job, array, task))
    return os.path.join(environment.get("SLURM_JOB_WORK_DIR") or "/", path)


def facts(environment, job, array, task):
    """By the letters that stand for them in a pattern."""
    number = environment["SLURM_JOB_ID"]
    return {
        "%": "%",
        "A": array or number,
        "J": number,
        "N": short_host_name(),
        "a": task or str(NO_TASK),
        "b": str(int(task or NO_TASK) % 10),
        "j": number,
        "n": "0",
        "s": "batch",
        "t": "0",
        "u": environment.get("SLURM_JOB_USER") or job.get("user") or "",
        "x": environment.get("SLURM_JOB_NAME") or job.get("name") or "",
    }


def expanded(pattern, values):
    """The pattern with what its `%5j` and the like stand for; one with a backslash is meant as it
    is, as by Slurm.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def value_of(match):
        value = values.get(match.group(2))
        if value is None:
            return match.group()
        width = min(int(match.group(1) or 0), MAX_WIDTH)
        return value.zfill(width) if value.isdigit() else value

    return re.sub(r"%(\d*)(.)", value_of, pattern)


def address(server, environment, now):
    """The job's address at the hub, over its whole life."""
    started = environment.get("SLURM_JOB_START_TIME", "")  # from 23.02 on
    since = (
        datetime.datetime.fromtimestamp(int(started), datetime.timezone.utc)
        if started.isdigit()
        else now - LONGEST
    )
    period = {"from": max(since, now - LONGEST) - MARGIN, "to": now + MARGIN}
    query = urllib.parse.urlencode(
        {name: at.strftime("%Y-%m-%dT%H:%M:%SZ") for name, at in period.items()}
    )
    cluster = environment.get("SLURM_CLUSTER_NAME") or "default"
    job = "slurm/%s/%s" % (
        urllib.parse.quote(cluster, safe=""),
        urllib.parse.quote(environment["SLURM_JOB_ID"], safe=""),
    )
    return "%s/api/v1/jobs/%s?%s" % (server.rstrip("/"), job, query)


def settings(path):
    """The NAME=value lines of a file."""
    with open(path, encoding="utf-8") as file:
        pairs = [
            row.strip().partition("=")
            for row in file
            if "=" in row and not row.lstrip().startswith("#")
        ]
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def ask(url, token):
    """The hub's answer; None where it has none."""
    request = urllib.request.Request(
        url, headers={"Authorization": "Bearer " + token, "Accept": "application/json"}
    )
    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=TIMEOUT_S) as answer:
            return json.loads(answer.read(MAX_BYTES))
    except (OSError, ValueError):
        return None


def last_answer(url, token, environment, seconds):
    """The hub's answer as soon as it holds the whole job; after the seconds the last that
    it gave.
    """
    deadline = time.monotonic() + seconds
    job = None
    while True:
        job = ask(url, token) or job
        if (
            job is not None and is_complete(job, environment)
        ) or time.monotonic() + PAUSE_S > deadline:
            return job
        time.sleep(PAUSE_S)


def become(environment):
    """The job's user from here on: its output belongs to him, who may have put a link in its place.

    For root alone.
    """
    if os.getuid() != 0:
        return
    os.setgroups([])
    os.setgid(int(environment["SLURM_JOB_GID"]))
    os.setuid(int(environment["SLURM_JOB_UID"]))


def append(path, text):
    """Adds the line to the file, if there is one; never waits for the reader of a pipe."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.write(descriptor, (text + "\n").encode())
    finally:
        os.close(descriptor)


def summarise(url, token, environment, seconds):
    job = last_answer(url, token, environment, seconds)
    text = (
        ""
        if job is None or was_requeued(job, environment)
        else line(job, is_complete(job, environment))
    )
    if text:
        become(environment)
        append(output(environment, job), text)


def is_left_behind():
    """True in a process of its own, which slurmd neither waits for nor ends with the epilog; False
    in the epilog's.
    """
    began, begins = os.pipe()
    if os.fork():
        os.close(begins)
        os.read(began, 1)  # until the other one has left the epilog's group of processes
        return False
    os.setsid()
    os.close(began)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(begins)
    return True


def main(arguments, environment):
    if (
        len(arguments) < 2
        or not environment.get("SLURM_JOB_ID", "").isdigit()
        or not is_first_node(environment)
    ):
        return
    with open(arguments[1], encoding="ascii") as file:
        token = file.read(1024).strip()
    url = address(
        settings(arguments[0])["FLEETWATCH_SERVER"],
        environment,
        datetime.datetime.now(datetime.timezone.utc),
    )
    seconds = int(arguments[2]) if len(arguments) > 2 else WAIT_S
    if url.startswith(("http://", "https://")) and is_left_behind():
        summarise(url, token, environment, seconds)


if __name__ == "__main__":
    try:
        main(sys.argv[1:], os.environ)
    except Exception:  # a summary is worth less than a job: whatever goes wrong, the epilog goes on
        sys.exit(0)

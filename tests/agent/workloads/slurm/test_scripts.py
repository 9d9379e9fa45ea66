"""The prolog and epilog that a site installs, run by dash as slurmd runs them: alone in an
environment of its variables.
"""

import json
import os
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from agent.workloads.slurm.hpc_files import HPCFiles

SCRIPTS = Path(__file__).parents[4] / "deploy" / "slurm"
SUMMARY = SCRIPTS / "jobsummary.py"
TOKEN = "fwr_secret"
STARTED, ENDED = "2026-11-22T10:00:00Z", "2026-11-22T14:00:00Z"
ANSWER = {
    "id": "4711",
    "name": "train",
    "user": "bob",
    "labels": {"partition": "gpu"},
    "start_at": STARTED,
    "end_at": ENDED,
    "capacity_ms": 28_800_000,  # two GPUs for four hours
    "coverage": 0.98,
    "efficiency": 0.61,
    "cost_usd": {"total": 8.4},
    "waste": {"wasted": {"gpu_hours": 3.1, "usd": 3.1}},
    "gpus": [{"uuid": "GPU-0"}, {"uuid": "GPU-1"}],
}
LINE = (
    "FleetWatch: job 4711: 8.0 GPU-hours, 61 % efficient, 3.1 GPU-hours wasted ($3.10 of $8.40)\n"
)
ENVIRONMENTS = Path(__file__).parent / "slurm_epilog"  # see its README


class ReadHub:
    """A hub that answers for one job, and keeps what it was asked."""

    def __init__(self):
        self.answer, self.status, self.delay_s = json.dumps(ANSWER), 200, 0.0
        self.answers = []  # before that one
        self.asked = []
        self.answered = threading.Event()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                hub.asked.append((self.path, self.headers["Authorization"]))
                time.sleep(hub.delay_s)
                self.send_response(hub.status)
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.end_headers()
                self.wfile.write((hub.answers.pop(0) if hub.answers else hub.answer).encode())
                hub.answered.set()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def read_hub():
    hub = ReadHub()
    yield hub
    hub.server.shutdown()
    hub.server.server_close()


class Site:
    """A node's folders, and its slurmd."""

    def __init__(self, folder):
        self.gpustat, self.mapping, self.etc = (
            folder / "gpustat",
            folder / "mapping",
            folder / "etc",
        )
        self.output = folder / "slurm-4711.out"

    def run(self, script, *, is_waited_for=True, **variables):
        environment = {
            "SLURM_JOB_ID": "4711",
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_JOB_GID": str(os.getgid()),
            "SLURM_CLUSTER_NAME": "della",
            "SLURM_JOB_STDOUT": str(self.output),
            "SLURM_JOB_NUM_NODES": "1",
            "FLEETWATCH_GPUSTAT": str(self.gpustat),
            "FLEETWATCH_ETC": str(self.etc),
            "FLEETWATCH_SUMMARY": str(SUMMARY),
            "FLEETWATCH_SUMMARY_WAIT_S": "0",
            **variables,
        }
        kept = {name: value for name, value in environment.items() if value is not None}
        return self._run(script, kept, is_waited_for)

    def end(self, recorded, **variables):
        """The epilog in an environment of slurmd's, as the user who runs the tests, who must be
        able to write the output.
        """
        environment = dict(
            line.split("=", 1) for line in (ENVIRONMENTS / recorded).read_text().splitlines()
        )
        environment["SLURM_JOB_WORK_DIR"] = str(self.output.parent)
        if "SLURM_JOB_STDOUT" in environment:
            environment["SLURM_JOB_STDOUT"] = environment["SLURM_JOB_STDOUT"].replace(
                "/home/bob/jobs", str(self.output.parent)
            )
        ours = {
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_JOB_GID": str(os.getgid()),
            "SLURM_JOB_GPUS": "0,3",
        }
        return self.run(
            "epilog.sh", **{"SLURM_JOB_STDOUT": None, **environment, **ours, **variables}
        )

    def _run(self, script, environment, is_waited_for):
        """The script; and until whoever it left behind has ended: they hold the other end of a
        pipe.
        """
        ended, ends = os.pipe()
        command = ["/bin/dash", SCRIPTS / script]
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            pass_fds=[ends],
        )
        os.close(ends)
        if is_waited_for:
            assert os.read(ended, 1) == b""
        os.close(ended)
        return done

    def configure(self, url):
        self.etc.mkdir()
        (self.etc / "summary.env").write_text(f"# the hub\nFLEETWATCH_SERVER={url}\n")
        (self.etc / "summary.token").write_text(TOKEN + "\n")
        self.output.write_text("loss 0.1\n")


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def claims(site):
    return [
        (claim.slurm_index, claim.uuid, claim.job_id, claim.uid)
        for claim in HPCFiles(str(site.gpustat), []).claims()
    ]


def quiet(done):
    return (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_prolog_notes_what_the_agent_reads_and_the_epilog_takes_it_away(site):
    began = site.run("prolog.sh", SLURM_JOB_GPUS="0,3")
    noted = claims(site)
    ended = site.run("epilog.sh", SLURM_JOB_GPUS="0,3")

    assert noted == [(0, "", 4711, os.getuid()), (3, "", 4711, os.getuid())]
    assert claims(site) == []
    assert quiet(began)
    assert quiet(ended)


def test_mig_instances_are_noted_by_their_uuid(site):
    site.run("prolog.sh", SLURM_JOB_GPUS="MIG-5c89852c-d268-5c8c-a6d6-1b3a45a1e0f2")

    assert claims(site) == [(None, "MIG-5c89852c-d268-5c8c-a6d6-1b3a45a1e0f2", 4711, os.getuid())]


@pytest.mark.parametrize("gpus", [None, "", ","])
def test_a_job_without_gpus_is_not_noted(site, gpus):
    assert quiet(site.run("prolog.sh", SLURM_JOB_GPUS=gpus))
    assert claims(site) == []


def test_the_epilog_leaves_other_jobs_alone(site):
    site.run("prolog.sh", SLURM_JOB_GPUS="0", SLURM_JOB_ID="47")
    site.run("prolog.sh", SLURM_JOB_GPUS="1")

    site.run("epilog.sh", SLURM_JOB_GPUS="0,1")

    assert [claim[2] for claim in claims(site)] == [47]


def test_a_list_that_means_to_leave_the_folder_does_not(site, tmp_path):
    site.run("prolog.sh", SLURM_JOB_GPUS="../escaped,$(touch${IFS}x),0")

    assert not (tmp_path / "escaped").exists()
    assert {path.name for path in site.gpustat.iterdir()} == {"escaped", "touchIFSx", "0"}


def test_dcgms_mapping_holds_several_jobs_and_loses_one(site):
    site.mapping.mkdir()
    folder = {"DCGM_HPC_JOB_MAPPING_DIR": str(site.mapping)}
    site.run("prolog.sh", SLURM_JOB_GPUS="0", SLURM_JOB_ID="47", **folder)
    site.run("prolog.sh", SLURM_JOB_GPUS="0,MIG-1", **folder)
    both = (site.mapping / "0").read_text()
    done = site.run("epilog.sh", **folder)

    assert both == "47\n4711\n"
    assert (site.mapping / "0").read_text() == "47\n"
    assert [path.name for path in site.mapping.iterdir()] == ["0"]
    assert quiet(done)


def test_a_folder_that_can_not_be_made_fails_no_job(site, tmp_path):
    (tmp_path / "file").write_text("")
    folders = {
        "FLEETWATCH_GPUSTAT": str(tmp_path / "file" / "gpustat"),
        "DCGM_HPC_JOB_MAPPING_DIR": str(tmp_path / "file"),
    }

    assert quiet(site.run("prolog.sh", SLURM_JOB_GPUS="0", **folders))
    assert quiet(site.run("epilog.sh", **folders))
    assert quiet(site.run("epilog.sh", SLURM_JOB_ID=None))


def test_the_epilog_says_in_the_jobs_output_what_it_made_of_its_gpus(site, read_hub):
    site.configure(read_hub.url)
    started = int(time.time()) - 7200

    done = site.run("epilog.sh", SLURM_JOB_START_TIME=str(started))

    ((path, token),) = read_hub.asked
    address = urlsplit(path)
    hour_before = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started - 3600))
    assert site.output.read_text() == "loss 0.1\n" + LINE
    assert address.path == "/api/v1/jobs/slurm/della/4711"
    assert parse_qs(address.query)["from"] == [hour_before]
    assert token == f"Bearer {TOKEN}"
    assert quiet(done)


@pytest.mark.parametrize("version", ["22.05", "23.11", "24.11"])
@pytest.mark.parametrize(("kind", "number"), [("job", "14"), ("array", "19")])
def test_the_line_reaches_the_output_that_slurm_names_by_a_pattern(
    site, read_hub, version, kind, number
):
    site.configure(read_hub.url)
    output = site.output.with_name(f"{number}.out")
    output.write_text("")

    done = site.end(f"{version}-{kind}")

    assert output.read_text() == LINE
    assert quiet(done)


@pytest.mark.parametrize(
    ("labels", "name"),
    [({}, "slurm-14.out"), ({"array_job": "12", "array_task": "7"}, "slurm-12_7.out")],
    ids=["job", "array"],
)
def test_without_a_pattern_it_is_slurms_default(site, read_hub, labels, name):
    site.configure(read_hub.url)
    read_hub.answer = json.dumps({**ANSWER, "labels": labels})
    site.output.with_name(name).write_text("")

    site.end("22.05-default")

    assert site.output.with_name(name).read_text() == LINE


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("%x-%j.out", "train-14.out"),
        ("%A_%a.out", "12_7.out"),
        ("%u/%5j-%3a-%b.%s%%", "bob/00014-007-7.batch%"),
        ("%J.%t.%n.%q", "14.0.0.%q"),
        ("%20j", "0000000014"),
        (f"{socket.gethostname().split('.')[0]}.out", "%N.out"),
        ("a\\%j", "a%j"),
    ],
)
def test_patterns_mean_what_they_mean_to_slurm(site, read_hub, pattern, name):
    if "%N" in name:
        pattern, name = name, pattern
    site.configure(read_hub.url)
    read_hub.answer = json.dumps({**ANSWER, "labels": {"array_job": "12", "array_task": "7"}})
    output = site.output.parent / name
    output.parent.mkdir(exist_ok=True)
    output.write_text("")

    site.end("22.05-job", SLURM_JOB_STDOUT=pattern)

    assert output.read_text() == LINE


def test_a_job_of_no_array_has_slurms_number_for_none(site, read_hub):
    site.configure(read_hub.url)
    output = site.output.with_name("14_4294967294.out")
    output.write_text("")

    site.end("22.05-job", SLURM_JOB_STDOUT="%A_%a.out")

    assert output.read_text() == LINE


def test_below_an_hour_it_is_minutes(site, read_hub):
    site.configure(read_hub.url)
    short = {
        "start_at": "2026-11-22T10:00:00Z",
        "end_at": "2026-11-22T10:00:30Z",
        "capacity_ms": 30_000,
    }
    read_hub.answer = json.dumps(
        {**ANSWER, **short, "gpus": [{}], "waste": {"wasted": {"gpu_hours": 0.0025, "usd": 0.01}}}
    )

    site.run("epilog.sh")

    assert (
        "job 4711: 0.5 GPU-minutes, 61 % efficient, 0.1 GPU-minutes wasted ($0.01 of $8.40)"
        in site.output.read_text()
    )


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, "4711: 8.0"),
        ({"capacity_ms": 28_798_000}, "4711: 8.0"),  # a second of each GPU short
        ({"capacity_ms": 28_797_999}, "4711 so far: 8.0"),
        ({"end_at": None}, "4711 so far: 8.0"),
        # the other GPU has not been told yet
        ({"gpus": [{}], "capacity_ms": 14_400_000}, "4711 so far: 4.0"),
    ],
)
def test_a_line_without_the_last_batch_says_so(site, read_hub, known, words):
    site.configure(read_hub.url)
    read_hub.answer = json.dumps({**ANSWER, **known})

    site.run("epilog.sh", SLURM_JOB_GPUS="0,3")

    assert f"job {words} GPU-hours" in site.output.read_text()


def test_the_last_batch_is_waited_for_while_the_node_takes_the_next_job(site, read_hub, tmp_path):
    impatient = tmp_path / "jobsummary.py"
    impatient.write_text(SUMMARY.read_text().replace("PAUSE_S = 5\n", "PAUSE_S = 0.1\n"))
    site.configure(read_hub.url)
    read_hub.answers = [json.dumps({**ANSWER, "end_at": None, "capacity_ms": 10_000})]

    site.run("epilog.sh", FLEETWATCH_SUMMARY=str(impatient), FLEETWATCH_SUMMARY_WAIT_S="20")

    assert len(read_hub.asked) == 2
    assert site.output.read_text() == "loss 0.1\n" + LINE


@pytest.mark.parametrize(("restarts", "speaks"), [(0, True), (1, True), (2, False)])
def test_of_a_requeued_jobs_runs_the_last_one_speaks(site, read_hub, restarts, speaks):
    site.configure(read_hub.url)
    read_hub.answer = json.dumps({**ANSWER, "restarts": restarts})

    site.run("epilog.sh", SLURM_JOB_RESTART_COUNT="1")

    assert (LINE in site.output.read_text()) is speaks


def test_what_was_not_observed_is_said(site, read_hub):
    site.configure(read_hub.url)
    read_hub.answer = json.dumps(
        {**ANSWER, "coverage": 0.4, "efficiency": None, "cost_usd": {"total": 0.0}}
    )

    site.run("epilog.sh")

    assert site.output.read_text().endswith(
        "job 4711: 8.0 GPU-hours, 3.1 GPU-hours wasted, 40 % observed\n"
    )


# the second alone before 23.02
@pytest.mark.parametrize("name", ["SLURM_JOB_NODELIST", "SLURM_NODELIST"])
@pytest.mark.parametrize(("nodename", "speaks"), [("n01", True), ("n02", False), ("n17", False)])
def test_of_the_jobs_nodes_the_first_one_speaks(site, read_hub, name, nodename, speaks):
    site.configure(read_hub.url)

    site.run(
        "epilog.sh", **{name: "n[01-02,17],x3"}, SLURMD_NODENAME=nodename, SLURM_JOB_NUM_NODES="4"
    )

    assert (LINE in site.output.read_text()) is speaks


@pytest.mark.parametrize(("nodes", "speaks"), [("1", True), ("2", False), (None, False)])
def test_where_nobody_tells_which_node_is_the_first_only_a_lone_one_speaks(
    site, read_hub, nodes, speaks
):
    site.configure(read_hub.url)

    site.run("epilog.sh", SLURM_JOB_NUM_NODES=nodes, SLURMD_NODENAME="n02")

    assert (LINE in site.output.read_text()) is speaks


@pytest.mark.parametrize(("leader", "speaks"), [("4711", True), ("4710", False)])
def test_of_a_heterogeneous_job_the_first_component_speaks(site, read_hub, leader, speaks):
    site.configure(read_hub.url)

    site.run("epilog.sh", SLURM_HET_JOB_ID=leader)

    assert (LINE in site.output.read_text()) is speaks


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (404, "{}"),
        (401, "{}"),
        (302, "{}"),
        (500, "oops"),
        (200, "no json"),
        (200, "{}"),
        (200, json.dumps({**ANSWER, "capacity_ms": 0})),
    ],
)
def test_a_hub_that_has_no_answer_is_silence(site, read_hub, status, answer):
    site.configure(read_hub.url)
    read_hub.status, read_hub.answer = status, answer

    assert quiet(site.run("epilog.sh"))
    assert site.output.read_text() == "loss 0.1\n"


def test_a_hub_that_is_away_is_silence(site):
    site.configure("http://127.0.0.1:9")

    assert quiet(site.run("epilog.sh"))
    assert site.output.read_text() == "loss 0.1\n"


def test_a_slow_hub_holds_neither_the_node_nor_the_job_up(site, read_hub):
    site.configure(read_hub.url)
    read_hub.delay_s = 8.0
    ended = read_hub.answered

    done = site.run("epilog.sh", is_waited_for=False)

    assert quiet(done)
    assert not ended.is_set()
    assert site.output.read_text() == "loss 0.1\n"


def test_without_a_token_nothing_is_asked_and_without_an_output_nothing_is_made(site, read_hub):
    site.configure(read_hub.url)
    (site.etc / "summary.token").unlink()
    without_token = site.run("epilog.sh")
    (site.etc / "summary.token").write_text(TOKEN)
    asked = list(read_hub.asked)
    without_output = site.run("epilog.sh", SLURM_JOB_STDOUT=str(site.output) + ".gone")

    assert quiet(without_token)
    assert quiet(without_output)
    assert asked == []
    assert not (site.output.parent / (site.output.name + ".gone")).exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_the_output_is_written_as_the_jobs_user_never_as_root(site, read_hub, tmp_path):
    site.configure(read_hub.url)
    secret = tmp_path / "shadow"
    secret.write_text("root's\n")
    secret.chmod(0o600)
    site.output.unlink()
    site.output.symlink_to(secret)

    done = site.run("epilog.sh", SLURM_JOB_UID="65534", SLURM_JOB_GID="65534")

    assert secret.read_text() == "root's\n"
    assert quiet(done)

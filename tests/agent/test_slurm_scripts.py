"""The prolog and epilog that a site installs, run by dash as slurmd runs them: alone in an environment of its variables."""

import json
import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from agent.workloads.hpc_files import HPCFiles

SCRIPTS = Path(__file__).parents[2] / "deploy" / "slurm"
TOKEN = "fwr_secret"
ANSWER = {
    "id": "4711",
    "capacity_ms": 28_800_000,
    "coverage": 0.98,
    "efficiency": 0.61,
    "cost_usd": {"total": 8.4},
    "waste": {"wasted": {"gpu_hours": 3.1, "usd": 3.1}},
}
LINE = "FleetWatch: job 4711 so far: 8.0 GPU-hours, 61 % efficient, 3.1 GPU-hours wasted ($3.10 of $8.40)\n"


class ReadHub:
    """A hub that answers for one job, and keeps what it was asked."""

    def __init__(self):
        self.answer, self.status, self.delay_s = json.dumps(ANSWER), 200, 0.0
        self.asked = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                hub.asked.append((self.path, self.headers["Authorization"]))
                time.sleep(hub.delay_s)
                self.send_response(hub.status)
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.end_headers()
                self.wfile.write(hub.answer.encode())

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
        self.gpustat, self.mapping, self.etc = folder / "gpustat", folder / "mapping", folder / "etc"
        self.output = folder / "slurm-4711.out"

    def run(self, script, **variables):
        environment = {
            "SLURM_JOB_ID": "4711",
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_JOB_GID": str(os.getgid()),
            "SLURM_CLUSTER_NAME": "della",
            "SLURM_JOB_STDOUT": str(self.output),
            "FLEETWATCH_GPUSTAT": str(self.gpustat),
            "FLEETWATCH_ETC": str(self.etc),
            "FLEETWATCH_SUMMARY": str(SCRIPTS / "jobsummary.py"),
            **variables,
        }
        kept = {name: value for name, value in environment.items() if value is not None}
        return subprocess.run(["/bin/dash", SCRIPTS / script], env=kept, capture_output=True, text=True, timeout=20, check=False)

    def configure(self, url):
        self.etc.mkdir()
        (self.etc / "summary.env").write_text(f"# the hub\nFLEETWATCH_SERVER={url}\n")
        (self.etc / "summary.token").write_text(TOKEN + "\n")
        self.output.write_text("loss 0.1\n")


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def claims(site):
    return [(claim.slurm_index, claim.uuid, claim.job_id, claim.uid) for claim in HPCFiles(str(site.gpustat), []).read()]


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
    folders = {"FLEETWATCH_GPUSTAT": str(tmp_path / "file" / "gpustat"), "DCGM_HPC_JOB_MAPPING_DIR": str(tmp_path / "file")}

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


def test_what_was_not_observed_is_said(site, read_hub):
    site.configure(read_hub.url)
    read_hub.answer = json.dumps({**ANSWER, "coverage": 0.4, "efficiency": None, "cost_usd": {"total": 0.0}})

    site.run("epilog.sh")

    assert site.output.read_text().endswith("so far: 8.0 GPU-hours, 3.1 GPU-hours wasted, 40 % observed\n")


@pytest.mark.parametrize(("nodename", "speaks"), [("n01", True), ("n02", False), ("n17", False)])
def test_of_the_jobs_nodes_the_first_one_speaks(site, read_hub, nodename, speaks):
    site.configure(read_hub.url)

    site.run("epilog.sh", SLURM_JOB_NODELIST="n[01-02,17],x3", SLURMD_NODENAME=nodename)

    assert (LINE in site.output.read_text()) is speaks


@pytest.mark.parametrize(
    ("status", "answer"),
    [(404, "{}"), (401, "{}"), (302, "{}"), (500, "oops"), (200, "no json"), (200, "{}"), (200, json.dumps({**ANSWER, "capacity_ms": 0}))],
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


def test_a_slow_hub_holds_no_job_up(site, read_hub):
    site.configure(read_hub.url)
    read_hub.delay_s = 8.0
    began = time.monotonic()

    assert quiet(site.run("epilog.sh"))
    assert time.monotonic() - began < 5
    assert site.output.read_text() == "loss 0.1\n"


def test_without_a_token_or_an_output_nothing_is_asked(site, read_hub):
    site.configure(read_hub.url)
    (site.etc / "summary.token").unlink()
    without_token = site.run("epilog.sh")
    (site.etc / "summary.token").write_text(TOKEN)
    without_output = site.run("epilog.sh", SLURM_JOB_STDOUT=None)

    assert quiet(without_token)
    assert quiet(without_output)
    assert read_hub.asked == []


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

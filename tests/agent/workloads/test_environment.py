import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent import batch, wire
from agent.readings import GPUInfo, ProcessReading
from agent.window import GPUWindow
from agent.workloads import Resolver, environment, programs
from agent.workloads.proc import Proc
from tests.agent import fake_proc

NOW = 1_794_000_100_000


def text(**variables):
    return "".join(f"{name}={value}\0" for name, value in variables.items())


def test_only_listed_variables_are_seen():
    found = environment.parse(
        text(
            AWS_SECRET_ACCESS_KEY="hunter2",
            WANDB_RUN_ID="k3j2",
            WANDB_API_KEY="hunter2",
            SLURM_JOB_ID="11",
        )
    )

    assert found == {"WANDB_RUN_ID": "k3j2", "SLURM_JOB_ID": "11"}


def test_no_listed_variable_is_one_that_is_known_to_hold_a_secret():
    words = ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE")

    assert [name for name in environment.ALLOWED if any(word in name for word in words)] == []


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("SLURM_JOB_ID=", {}),
        ("SLURM_JOB_ID", {}),
        ("slurm_job_id=1", {}),
        ("XSLURM_JOB_ID=1", {}),
        ("WANDB_PROJECT=" + "a" * 200, {"WANDB_PROJECT": "a" * 200}),
        ("WANDB_PROJECT=" + "a" * 201, {}),
        ("WANDB_PROJECT=a\nb", {}),
        ("WANDB_PROJECT=a=b", {"WANDB_PROJECT": "a=b"}),
        ("WANDB_PROJECT=a\0WANDB_PROJECT=b", {"WANDB_PROJECT": "a"}),
        ("JPY_SESSION_NAME=/home/ann/secret-project.ipynb", {"JPY_SESSION_NAME": ""}),
        ("", {}),
    ],
)
def test_a_value_is_taken_only_whole_and_printable(entry, found):
    assert environment.parse(entry) == found


def test_a_very_long_environment_is_read_to_its_limit(tmp_path):
    root = fake_proc.host(tmp_path)
    fake_proc.process(
        root, 4711, environment={"A": "x" * environment.MAX_BYTES, "SLURM_JOB_ID": "11"}
    )

    assert Proc(str(root)).read([4711])[4711].environment == {}


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({"SLURM_JOB_ID": "11", "PBS_JOBID": "12"}, ("slurm", "11")),
        ({"PBS_JOBID": "811.pbs01"}, ("pbs", "811.pbs01")),
        ({"LSB_JOBID": "7"}, ("lsf", "7")),
        ({"PBS_JOBID": "a/b"}, None),
        ({"PBS_JOBID": "1" * 101}, None),
        ({"WANDB_RUN_ID": "k3j2"}, None),
    ],
)
def test_a_process_may_claim_a_job(variables, job):
    assert environment.claimed_job(variables) == job


PROGRAMS = {
    "a notebook's kernel": (
        "interactive",
        "/opt/conda/bin/python3.11 -m ipykernel_launcher -f /run/kernel.json",
    ),
    "a kernel, with options": ("interactive", "python -Xfrozen_modules=off -m ipykernel_launcher"),
    "options with values": ("interactive", "python -X utf8 -W ignore -u -m ipykernel_launcher"),
    "a notebook server": (
        "interactive",
        "/usr/bin/python3 /usr/local/bin/jupyter-lab --no-browser",
    ),
    "RStudio": ("interactive", "/usr/lib/rstudio-server/bin/rsession -u ann"),
    "VS Code's server": (
        "interactive",
        "/home/ann/.vscode-server/bin/0a1b/node --type=extensionHost",
    ),
    "code-server": ("interactive", "/usr/lib/code-server --bind-addr 0.0.0.0"),
    "vLLM": (
        "service",
        "/opt/venv/bin/python /opt/venv/bin/vllm serve some/model --api-key hunter2",
    ),
    "vLLM as a module": ("service", "python3 -m vllm.entrypoints.openai.api_server"),
    "vLLM's engine, by its own title": ("service", "VLLM::EngineCore"),
    "Triton": ("service", "/opt/tritonserver/bin/tritonserver --model-repository=/models"),
    "TGI": ("service", "text-generation-launcher --model-id x"),
    "Ollama": ("service", "/usr/local/bin/ollama runner --model x"),
    "a Ray Serve replica": ("service", "ray::ServeReplica:app:LLM"),
    "another actor of Ray": (None, "ray::train_fn"),
    "training": (None, "python train.py --out /home/ann/jupyter/vllm"),
    "training with such a name in an option": (None, "python -m torch.distributed.run jupyter.py"),
    "code on the command line": (None, "python -c pass jupyter"),
    "nothing": (None, ""),
}


@pytest.mark.parametrize(("kind", "command"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_program_says_whether_somebody_sits_at_it(kind, command):
    assert programs.kind_of(command.split(" ")) == kind


def test_nothing_of_a_real_process_with_secrets_everywhere_is_in_the_encoded_batch(tmp_path: Path):
    """The golden test: whatever this file's process was given, only the listed variables' values
    leave the host.
    """
    script = tmp_path / "train.py"
    script.write_text("import sys; print(flush=True); sys.stdin.read()")
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "SECRET-1",
        "WANDB_API_KEY": "SECRET-2",
        "DATABASE_URL": "postgres://u:SECRET-3@db/x",
    }
    allowed = {
        "WANDB_RUN_ID": "k3j2",
        "PATH": os.environ["PATH"],
        "JPY_SESSION_NAME": "/home/SECRET-4.ipynb",
    }
    command = [sys.executable, str(script), "--token=SECRET", "--password", "SECRET-5"]
    with subprocess.Popen(
        command, env={**secrets, **allowed}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()  # it runs, with its own command line and not ours
        resolver = Resolver(node="gpu-07")
        now_ms = int(time.time() * 1000)
        workload = resolver.resolve(
            {"GPU-1": [ProcessReading(child.pid)]},
            gpus=[GPUInfo("GPU-1")],
            start_ms=now_ms - 10_000,
            end_ms=now_ms,
        )
        child.stdin.close()

    closed = batch.ClosedWindow(
        now_ms - 10_000, [GPUWindow("GPU-1", now_ms - 10_000, 10_000, {})], workload
    )
    sender = batch.Sender("gpu-07", "boot", 1_794_000_000_000, 10)
    encoded = wire.encode(
        batch.build([closed], sender=sender, gpus=[GPUInfo("GPU-1")], agent={}, events=[])
    )

    assert b"k3j2" in encoded
    assert b"SECRET" not in encoded
    assert b"train.py" not in encoded

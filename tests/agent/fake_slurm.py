"""squeue and scontrol for tests: real executables that answer from files, with records in the
shapes of several versions.
"""

import json
import os
import shutil
from pathlib import Path

from agent.readings import GPUInfo

NOW = 1_793_700_000_000
NINE_MS = 1_793_696_400_000
GPUS = [
    GPUInfo(
        f"GPU-{place}", index=place, bus_id=f"00000000:{0x10 + place:02X}:00.0", minor=3 - place
    )
    for place in range(4)
]


IDLE = "gpu:a100:0(IDX:N/A)"


def held(holdings):
    return {
        (item.uuid, item.job_key.rpartition("/")[2]): item.share for item in holdings.allocations
    }


def write_claim(path, text, *, at_ms=NOW):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (at_ms / 1000, at_ms / 1000))


RECORDED = Path(__file__).parent / "slurm_22_05"  # see its README

# One script for both names. A folder of answers stands beside it; what was asked is kept in
# `calls`.
SCRIPT = r"""#!/bin/sh
here=${0%/*}
name=${0##*/}
printf '%s %s tz=%s secret=%s\n' "$name" "$*" "$TZ" "$SECRET" >> "$here/calls"
if [ -f "$here/hangs" ]; then sleep 30; fi
if [ -f "$here/floods" ]; then yes flood; fi
if [ -f "$here/down" ]; then
  echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2
  exit 1
fi
show() { if [ -f "$here/$1" ]; then cat "$here/$1"; else echo "$2" >&2; exit 1; fi; }
case "$name $*" in
  "squeue "*" -w "*) show list "Invalid node name specified" ;;
  "squeue "*" -O "*) show pending "squeue: error: Invalid job format specification" ;;
  "squeue "*" -j "*" %i|%j") for last do id=$was; was=$prev; prev=$last; done; show "name-$id" "Invalid job id specified" ;;
  "scontrol show config") show config "no config" ;;
  "scontrol "*" show node "*) for last do :; done; show "node-$last" "Node $last not found" ;;
  "scontrol "*"--json"*" show job "*)
    if [ -f "$here/no-json" ]; then
      printf "scontrol: unrecognized option '--json'\nTry \"scontrol --help\" for more information\n" >&2
      exit 1
    fi
    for last do :; done; show "job-$last.json" "slurm_load_jobs error: Invalid job id specified" ;;
  "scontrol "*" show job "*) for last do :; done; show "job-$last.txt" "slurm_load_jobs error: Invalid job id specified" ;;
  *) echo "$name: what is $*?" >&2; exit 64 ;;
esac
"""

CONFIG = (
    "Configuration data as of 2026-11-03T09:00:00\nAccountingStorageHost   = db\nClusterName       "
    "      = della\nSlurmctldPort = 6817\n"
)


class FakeSlurm:
    """A folder with both commands; every method changes what they answer from now on."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("squeue", "scontrol"):
            (folder / name).write_text(SCRIPT)
            (folder / name).chmod(0o755)
        self.say("config", CONFIG)
        self.say("list", "")
        self.say("pending", "")
        self.jobs = {}

    @property
    def environment(self):
        return {
            "PATH": f"{self.folder}:/usr/bin:/bin",
            "SECRET": "hunter2",
            "TZ": "America/New_York",
        }

    def say(self, name, text):
        (self.folder / name).write_text(text)

    def unsay(self, name):
        (self.folder / name).unlink(missing_ok=True)

    def node(self, name="n01", **fields):
        self.say("node-" + name, node_line(name, **fields))

    def job(self, record, *, ask=None, state="RUNNING", start="2026-11-03T09:00:00"):
        """Lists the job and answers for it in JSON."""
        number = (
            record["job_id"] if isinstance(record["job_id"], int) else record["job_id"]["number"]
        )
        ask = str(ask or number)
        self.say(f"job-{ask}.json", json.dumps({"jobs": [record], "warnings": [], "errors": []}))
        self.jobs[number] = f"{number}|{ask}|{state}|{start}"
        self.say("list", "".join(line + "\n" for line in self.jobs.values()))

    def text_job(
        self,
        number,
        line,
        *,
        name,
        names=None,
        ask=None,
        state="RUNNING",
        start="2026-11-03T09:00:00",
    ):
        """As `job`, of a Slurm that speaks no JSON.

        `names` is what squeue prints of the job, of all its components.
        """
        ask = str(ask or number)
        self.say("no-json", "")
        self.say(f"job-{ask}.txt", line + "\n")
        self.say(f"name-{ask}", names or f"{ask}|{name}\n")
        self.jobs[number] = f"{number}|{ask}|{state}|{start}"
        self.say("list", "".join(line + "\n" for line in self.jobs.values()))

    def play(self, moment):
        """Answers as the real Slurm 22.05 did at that moment."""
        self.say("no-json", "")
        for path in (RECORDED / moment).iterdir():
            shutil.copy(path, self.folder / path.name)

    def forget_all(self):
        """No job has a record any more."""
        for path in (*self.folder.glob("job-*"), *self.folder.glob("name-*")):
            path.unlink()

    def forget(self, number):
        del self.jobs[number]
        self.say("list", "".join(line + "\n" for line in self.jobs.values()))

    def calls(self):
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


def node_line(
    name="n01", *, state="MIXED", gres="gpu:a100:4(S:0-1)", used="gpu:a100:2(IDX:0-1)", reason=""
):
    reason = f" Reason={reason} [root@2026-11-02T08:00:00]" if reason else ""
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=32  CPUAlloc=16 CPUEfctv=64 CPUTot=64"
        f" CPULoad=3.10 AvailableFeatures=a100 ActiveFeatures=a100 Gres={gres} GresDrain=N/A"
        f" GresUsed={used} NodeAddr={name} NodeHostName={name} Version=24.05.4 OS=Linux 5.14.0 #1"
        f" SMP RealMemory=512000 AllocMem=64000 FreeMem=300000 Sockets=2 Boards=1 State={state}"
        " ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu"
        " BootTime=2026-10-01T00:00:00 CfgTRES=cpu=64,mem=500G,gres/gpu=4"
        f" AllocTRES=cpu=16,mem=64G,gres/gpu=2 CurrentWatts=0 AveWatts=0{reason}\n"
    )


def number(value):
    """A number as data_parser v0.0.40 and newer write it."""
    return {"set": True, "infinite": False, "number": value}


NOT_SET = {"set": False, "infinite": False, "number": 0}


def job_2405(**changes):
    """A running job in the shape of 24.05 (data_parser v0.0.41): objects for numbers, lists for
    states and flags.
    """
    record = {
        "account": "nlp",
        "admin_comment": "token=hunter2",
        "array_job_id": number(0),
        "array_task_id": NOT_SET,
        "batch_flag": True,
        "cluster": "della",
        "command": "/home/ann/train.sh --token=hunter2",
        "comment": "password=hunter2",
        "end_time": number(1793786400),
        "exclusive": [],
        "gres_detail": ["gpu:a100:2(IDX:0-1)"],
        "het_job_id": number(0),
        "het_job_offset": number(0),
        "job_id": 4711,
        "job_resources": {
            "select_type": ["CPU", "MEMORY"],
            "nodes": {
                "count": 1,
                "select_type": ["AVAILABLE"],
                "list": "n01",
                "allocation": [{"index": 0, "name": "n01"}],
            },
            "cpus": 16,
        },
        "job_state": ["RUNNING"],
        "name": "train",
        "node_count": number(1),
        "nodes": "n01",
        "partition": "gpu",
        "qos": "normal",
        "restart_cnt": 0,
        "shared": [],
        "start_time": number(1793696400),
        "submit_time": number(1793692800),
        "time_limit": number(1500),
        "tres_alloc_str": "cpu=16,mem=64G,node=1,billing=16,gres/gpu=2,gres/gpu:a100=2",
        "tres_req_str": "cpu=16,mem=64G,node=1,billing=16,gres/gpu=2",
        "user_id": 1000,
        "user_name": "ann",
    }
    return {**record, **changes}


def job_2108(**changes):
    """The same job in the shape of 21.08 and 22.05: bare numbers, null for what is not set, one
    text for the state.
    """
    record = {
        "account": "nlp",
        "array_job_id": 0,
        "array_task_id": None,
        "batch_flag": True,
        "end_time": 1793786400,
        "gres_detail": ["gpu:a100:2(IDX:0-1)"],
        "het_job_id": 0,
        "het_job_offset": 0,
        "job_id": 4711,
        "job_resources": {
            "nodes": "n01",
            "allocated_hosts": 1,
            "allocated_nodes": [{"nodename": "n01", "cpus_used": 16}],
        },
        "job_state": "RUNNING",
        "name": "train",
        "node_count": 1,
        "nodes": "n01",
        "partition": "gpu",
        "qos": "normal",
        "restart_cnt": 0,
        "shared": None,
        "start_time": 1793696400,
        "submit_time": 1793692800,
        "time_limit": 1500,
        "tres_req_str": "cpu=16,mem=64G,node=1,billing=16,gres/gpu=2",
        "user_name": "ann",
    }
    return {**record, **changes}


def job_line(
    number=4711,
    *,
    name="train",
    state="RUNNING",
    groups=" Nodes=n01 CPU_IDs=0-15 Mem=65536 GRES=gpu:a100:2(IDX:0-1)",
    head="",
    **fields,
):
    """The same job in one line of `scontrol -d -o show job`, as 21.08 to 25.11 print it."""
    values = {
        "Restarts": 0,
        "BatchFlag": 1,
        "OverSubscribe": "OK",
        "EndTime": "2026-11-04T10:00:00",
        "NumNodes": 1,
        **fields,
    }
    return (
        f"JobId={number} {head}JobName={name} UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A"
        f" Priority=4294 Nice=0 Account=nlp QOS=normal JobState={state} Reason=None"
        f" Dependency=(null) Requeue=1 Restarts={values['Restarts']}"
        f" BatchFlag={values['BatchFlag']} Reboot=0 ExitCode=0:0 DerivedExitCode=0:0"
        " RunTime=01:00:00 TimeLimit=1-01:00:00 TimeMin=N/A SubmitTime=2026-11-03T08:00:00"
        " EligibleTime=2026-11-03T08:00:00 StartTime=2026-11-03T09:00:00"
        f" EndTime={values['EndTime']} Deadline=N/A Partition=gpu AllocNode:Sid=login:1"
        " ReqNodeList=(null) ExcNodeList=(null) NodeList=n01 BatchHost=n01"
        f" NumNodes={values['NumNodes']} NumCPUs=16 NumTasks=1 CPUs/Task=16 ReqB:S:C:T=0:0:*:*"
        " ReqTRES=cpu=16,mem=64G,node=1,billing=16,gres/gpu=2"
        " AllocTRES=cpu=16,mem=64G,node=1,billing=16,gres/gpu=2 Socks/Node=*"
        f" NtasksPerN:B:S:C=0:0:*:* CoreSpec=* JOB_GRES=gpu:a100:2 {groups} MinCPUsNode=16"
        " MinMemoryNode=64G MinTmpDiskNode=0 Features=(null) DelayBoot=00:00:00"
        f" OverSubscribe={values['OverSubscribe']} Contiguous=0 Licenses=(null) Network=(null)"
        " Command=/home/ann/train.sh --token=hunter2 WorkDir=/home/ann Comment=Restarts=9"
        " GRES=gpu:8(IDX:0-7) StdErr=/home/ann/err TresPerNode=gres/gpu:2"
    )

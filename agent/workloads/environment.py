"""What a process was started with: a few named variables of /proc/<pid>/environ, and no other.

An environment is full of secrets, so the list says what may be seen, never what may not. The values
are claims: whoever starts a process writes there what he likes. A control group always counts for
more.
"""

import re
from typing import Dict, FrozenSet, Mapping, Optional, Tuple

MAX_BYTES = 256 * 1024  # of an environment
MAX_VALUE = 200  # longer is no id and no name

# A job of a scheduler that this host's control groups do not show: its name, and the variable that
# holds the job's id.
JOB_CLAIMS = (
    ("slurm", "SLURM_JOB_ID"),
    ("pbs", "PBS_JOBID"),
    ("lsf", "LSB_JOBID"),
    ("aws-batch", "AWS_BATCH_JOB_ID"),
)
SLUID = "SLURM_JOB_SLUID"
Variables = Mapping[str, str]  # by name
NOTEBOOK = "JPY_SESSION_NAME"  # only that it is there: the value is a path
# Sent with the job, in small letters.
LABELS = (
    "JUPYTERHUB_USER", "MLFLOW_RUN_ID", "OMP_NUM_THREADS", "RAY_JOB_ID", "RUNAI_JOB_NAME",
    "RUNAI_PROJECT", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_PARTITION",
    "SLURM_JOB_QOS", "TORCHELASTIC_RUN_ID", "WANDB_PROJECT", "WANDB_RUN_ID", "WORLD_SIZE",
)  # fmt: skip
NAMES = ("POD_NAME", "POD_NAMESPACE", "SLURM_JOB_ACCOUNT", "SLURM_JOB_NAME")
_JOB_ID = re.compile(r"[0-9A-Za-z_.@:\[\]-]{1,100}")
_PRESENCE_ONLY = frozenset((NOTEBOOK,))
ALLOWED: FrozenSet[str] = frozenset(
    (*(variable for _, variable in JOB_CLAIMS), SLUID, NOTEBOOK, *LABELS, *NAMES)
)


def parse(text: str) -> Variables:
    """The allowed variables in the text of an environ file.

    Of two with one name the first counts, as for getenv.
    """
    variables: Dict[str, str] = {}
    for entry in text.split("\0"):
        name, sign, value = entry.partition("=")
        if sign and name in ALLOWED and name not in variables:
            if name in _PRESENCE_ONLY:
                variables[name] = ""
            elif 0 < len(value) <= MAX_VALUE and value.isprintable():
                variables[name] = value
    return variables


def claimed_job(variables: Variables) -> Optional[Tuple[str, str]]:
    """(scheduler, job id) that the process says it is part of."""
    for scheduler, variable in JOB_CLAIMS:
        if _JOB_ID.fullmatch(variables.get(variable, "")):
            return scheduler, variables[variable]
    return None


def labels(variables: Variables) -> Variables:
    """What is told of the job for people."""
    return {name.lower(): variables[name] for name in LABELS if name in variables}

"""A real Slurm of one GPU node and one without, from Debian's packages, in namespaces of its own.

Everything lies in one folder and dies with process 1 of its namespace: nothing of it is left on the
machine.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
CGROUPS = pathlib.Path("/sys/fs/cgroup")
USERS = {"ann": 5001, "bob": 5002}
START_S = 60.0


class Lab:
    """The running lab. `path` is its folder, the same inside its namespace and outside."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._pid = 0
        self._machine: subprocess.Popen[bytes] | None = None
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Returns when jobs can run."""
        self._write_files()
        self._enter()
        self._start_database()
        self._daemon("slurmdbd", "slurmdbd", "-D")
        self._until(
            lambda: self.run("sacctmgr", "-i", "add", "cluster", "della").returncode == 0,
            "a database daemon that answers",
        )
        self.run("sacctmgr", "-i", "add", "account", "physics", "chem")
        self.run("sacctmgr", "-i", "add", "user", "ann", "account=chem")
        self.run("sacctmgr", "-i", "add", "user", "bob", "account=physics")
        self.start_controller()
        self._daemon("slurmd-gpu01", "slurmd", "-D", "-N", "gpu01")
        self._daemon("slurmd-cpu01", "slurmd", "-D", "-N", "cpu01")
        self._until(
            lambda: self.run("sinfo", "-h", "-N", "-o", "%T").stdout.split() == ["idle"] * 2,
            "idle nodes",
        )

    def start_controller(self) -> None:
        """slurmctld, at first and after a test stopped it."""
        self._daemon("slurmctld", "slurmctld", "-D")
        self._until(
            lambda: self.run("scontrol", "ping").returncode == 0, "a controller that answers"
        )

    def stop_controller(self) -> None:
        end(self._daemons.pop("slurmctld"))
        self._until(lambda: self.run("scontrol", "ping").returncode != 0, "a silent controller")

    def run(
        self, *command: str, user: str = "", **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """The command in the lab, as root or as one of its users."""
        return subprocess.run(
            self._inside(command, user, environment), capture_output=True, text=True, timeout=60
        )

    def popen(self, *command: str, log: str, **environment: str) -> "subprocess.Popen[bytes]":
        """A process that goes on in the lab; what it prints is in the log."""
        with (self.path / "log" / log).open("ab") as file:
            return subprocess.Popen(
                self._inside(command, "", environment),
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
            )

    def sbatch(self, *options: str, user: str = "bob", script: str = "") -> int:
        """Submits a job; gives its number."""
        told = ("--wrap", script) if script else ()
        done = self.run(
            "sbatch", "--parsable", "--chdir", str(self.path / "jobs"), *options, *told, user=user
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout.strip().split(";")[0])

    @contextlib.contextmanager
    def lost(self, index: int) -> Iterator[None]:
        """Meanwhile the driver does not find this GPU."""
        more = self.path / "nvml.more"
        more.write_text(f"lost.{index} 1\n")
        try:
            yield
        finally:
            more.unlink()

    def states(self) -> dict[str, str]:
        """Of every job that the controller remembers: its name as squeue writes it -> its state."""
        lines = self.run("squeue", "-h", "-a", "-r", "-t", "all", "-o", "%i|%T").stdout.split()
        return dict(line.split("|") for line in lines)

    def wait_for(self, condition: Callable[[], bool], what: str, *, seconds: float = 60.0) -> None:
        """Waits for other processes, which have no event to wait for."""
        self._until(condition, what, seconds=seconds)

    def stop(self) -> None:
        """Ends everything in the namespace, and takes away its control groups and folder."""
        if self._machine is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._machine.kill()
            self._machine.wait(10)
        for process in self._daemons.values():
            process.wait(10)
        for name in (
            "slurm_gpu01",
            "slurm_cpu01",
            "gpu01_slurmstepd.scope",
            "cpu01_slurmstepd.scope",
        ):
            for folder in [*CGROUPS.glob(f"*/{name}"), *CGROUPS.glob(f"system.slice/{name}")]:
                subprocess.run(
                    ["find", folder, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"],
                    capture_output=True,
                )

    def log(self, name: str) -> str:
        """The end of a log, for a failed test."""
        path = self.path / "log" / name
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def _inside(
        self, command: tuple[str, ...], user: str, environment: dict[str, str]
    ) -> list[str]:
        who = (
            ["setpriv", "--reuid", str(USERS[user]), "--regid", str(USERS[user]), "--clear-groups"]
            if user
            else []
        )
        settings = [
            f"{name}={value}"
            for name, value in {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment}.items()
        ]
        return [
            "nsenter",
            "-t",
            str(self._pid),
            "-m",
            "-u",
            "-p",
            *who,
            "env",
            "-i",
            *settings,
            *command,
        ]

    def _enter(self) -> None:
        command = [
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--propagation",
            "private",
        ]
        with (self.path / "log" / "node.log").open("wb") as log:
            command += [sys.executable, str(HERE / "node.py"), str(self.path)]
            self._machine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        self._until((self.path / "ready").exists, "a namespace")
        children = pathlib.Path(
            f"/proc/{self._machine.pid}/task/{self._machine.pid}/children"
        ).read_text()
        self._pid = int(children.split()[0])

    def _write_files(self) -> None:
        for name in (
            "log",
            "spool/ctld",
            "spool/slurmd.gpu01",
            "spool/slurmd.cpu01",
            "slurm/prolog.d",
            "slurm/epilog.d",
            "jobs",
            "db",
            "etc",
        ):
            (self.path / name).mkdir(parents=True)
        (self.path / "jobs").chmod(0o1777)
        for name in ("spool/ctld", "log"):
            shutil.chown(self.path / name, "slurm", "slurm")
        shutil.chown(self.path / "db", "mysql", "mysql")
        is_v1 = (CGROUPS / "devices").is_dir()
        places = {"LAB": str(self.path), "CGROUP_PLUGIN": "cgroup/v1" if is_v1 else "cgroup/v2"}
        places |= {
            name: str(free_port())
            for name in ("CTLD_PORT", "GPU_PORT", "CPU_PORT", "DBD_PORT", "MYSQL_PORT")
        }
        for source in (HERE / "conf").iterdir():
            text = source.read_text()
            for name, value in places.items():
                text = text.replace(f"@{name}@", value)
            (self.path / "slurm" / source.name).write_text(text)
        self._mysql_port = places["MYSQL_PORT"]
        shutil.chown(self.path / "slurm" / "slurmdbd.conf", "slurm", "slurm")
        (self.path / "slurm" / "slurmdbd.conf").chmod(0o600)
        scripts = ROOT / "deploy" / "slurm"
        places = f"FLEETWATCH_ETC={self.path}/etc FLEETWATCH_SUMMARY={scripts}/jobsummary.py"
        for step in ("prolog", "epilog"):  # as their headers say: files first
            script = self.path / "slurm" / f"{step}.d" / "50-fleetwatch.sh"
            script.write_text(f"#!/bin/sh\nexec env {places} /bin/sh {scripts}/{step}.sh\n")
            script.chmod(0o755)
        users = "".join(
            f"{name}:x:{number}:{number}::/tmp:/bin/sh\n" for name, number in USERS.items()
        )
        groups = "".join(f"{name}:x:{number}:\n" for name, number in USERS.items())
        (self.path / "passwd").write_text(pathlib.Path("/etc/passwd").read_text() + users)
        (self.path / "group").write_text(pathlib.Path("/etc/group").read_text() + groups)
        (self.path / "hosts").write_text("127.0.0.1 localhost lab\n")
        shutil.copy(HERE / "burn.py", self.path / "jobs" / "burn.py")
        library = [
            "-shared",
            "-fPIC",
            "-Wl,-soname,libnvidia-ml.so.1",
            "-o",
            str(self.path / "libnvidia-ml.so.1"),
        ]
        subprocess.run(
            ["cc", *library, str(ROOT / "tests" / "agent" / "fake_nvml" / "fake_nvml.c")],
            check=True,
            capture_output=True,
        )
        (self.path / "nvml.state").write_text("count 4\n")

    def _start_database(self) -> None:
        folder = self.path / "db"
        # one statement a line, and no anonymous user that would be taken for ours
        (self.path / "create.sql").write_text(
            "DELETE FROM mysql.global_priv WHERE User='';\n"
            "FLUSH PRIVILEGES;\n"
            "CREATE USER slurm@localhost IDENTIFIED BY 'slurm';\n"
            "CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'slurm';\n"
            "GRANT ALL ON slurm_acct_db.* TO slurm@localhost;\n"
            "GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';\n"
        )
        made = self.run(
            "mariadb-install-db",
            "--no-defaults",
            "--user=mysql",
            f"--datadir={folder}",
            "--skip-test-db",
        )
        assert made.returncode == 0, made.stdout + made.stderr
        places = [
            f"--datadir={folder}",
            f"--socket={folder}/socket",
            f"--pid-file={folder}/pid",
            f"--port={self._mysql_port}",
        ]
        limits = [
            "--bind-address=127.0.0.1",
            "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=8M",
            "--innodb-lock-wait-timeout=900",
        ]
        self._daemon(
            "mariadbd",
            "mariadbd",
            "--no-defaults",
            "--user=mysql",
            f"--init-file={self.path}/create.sql",
            *places,
            *limits,
        )
        key = self.path / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        shutil.chown(key, "munge", "munge")
        (self.path / "log" / "munge").mkdir()
        shutil.chown(self.path / "log" / "munge", "munge", "munge")
        files = [
            f"--key-file={key}",
            f"--log-file={self.path}/log/munge/munged.log",
            f"--seed-file={self.path}/log/munge/seed",
        ]
        who = ["setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups"]
        self._daemon(
            "munged",
            *who,
            "munged",
            "--foreground",
            "--force",
            "--socket=/run/munge/munge.socket.2",
            *files,
        )
        self._until((folder / "socket").exists, "a database")
        self._until(lambda: self.run("munge", "-n").returncode == 0, "a munge daemon")

    def _daemon(self, name: str, *command: str) -> None:
        self._daemons[name] = self.popen(*command, log=name + ".out")

    def _until(self, condition: Callable[[], bool], what: str, *, seconds: float = START_S) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"{path.name}: {path.read_text(errors='replace')[-600:]}"
                    for path in (self.path / "log").glob("*.*")
                )
                raise AssertionError(f"the lab has no {what} within {seconds:.0f} s\n{logs}")
            time.sleep(0.2)


def end(process: "subprocess.Popen[bytes]", *, seconds: float = 20.0) -> None:
    """SIGTERM for what nsenter started, which does not hand it on; waits until it has ended."""
    for child in (
        pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ):
        os.kill(int(child), signal.SIGTERM)
    process.wait(seconds)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_lab() -> Iterator[Lab]:
    """A lab whose jobs can run; at the end nothing of it is left."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fleetwatch-slurm-", dir="/var/tmp"))
    folder.chmod(0o755)
    lab = Lab(folder)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()
        shutil.rmtree(folder, ignore_errors=True)

"""A /proc of our own: just the files that the agent reads."""

from pathlib import Path

BOOT_S = 1_794_000_000
BOOT_ID = "0b7c1f7e-1111-2222-3333-444455556666"


def host(folder: Path) -> Path:
    """A proc root whose machine booted at BOOT_S."""
    (folder / "sys/kernel/random").mkdir(parents=True)
    (folder / "sys/kernel/random/boot_id").write_text(BOOT_ID + "\n")
    (folder / "stat").write_text(f"cpu  1 2 3 4\nbtime {BOOT_S}\nprocesses 5\n")
    return folder


def process(
    root: Path,
    pid: int,
    *,
    name: str = "python",
    state: str = "S",
    start_ticks: int = 100,
    cpu_ticks: int = 0,
    parent: int = 0,
    uid: int = 0,
    cgroup: str = "0::/user.slice\n",
    command: tuple[str, ...] = ("python", "train.py", "--api-key=hunter2"),
    environment: dict[str, str] | None = None,
    children: tuple[int, ...] | None = (),
) -> None:
    """A process, or the same one in a new state; children None: of a kernel that names none."""
    folder = root / str(pid)
    stat(
        folder,
        pid,
        name=name,
        state=state,
        start_ticks=start_ticks,
        cpu_ticks=cpu_ticks,
        parent=parent,
    )
    (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (folder / "cgroup").write_text(cgroup)
    (folder / "cmdline").write_text("".join(part + "\0" for part in command))
    (folder / "environ").write_text(
        "".join(f"{key}={value}\0" for key, value in (environment or {}).items())
    )
    thread(root, pid, pid, cpu_ticks=cpu_ticks)
    if children is not None:
        (folder / f"task/{pid}/children").write_text(" ".join(map(str, children)))


def thread(root: Path, pid: int, tid: int, *, cpu_ticks: int) -> None:
    """A thread of the process."""
    stat(root / str(pid) / "task" / str(tid), tid, cpu_ticks=cpu_ticks)


def stat(
    folder: Path,
    pid: int,
    *,
    name: str = "python",
    state: str = "S",
    start_ticks: int = 100,
    cpu_ticks: int = 0,
    parent: int = 0,
) -> None:
    """The stat file of a process or a thread: proc(5)."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["0"] * 19
    fields[0] = str(parent)
    fields[10] = str(cpu_ticks)  # utime: the 14th field of all
    fields[18] = str(start_ticks)
    (folder / "stat").write_text(f"{pid} ({name}) {state} {' '.join(fields)} 0 0\n")

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
    root: Path, pid: int, *, name: str = "python", state: str = "S", start_ticks: int = 100, uid: int = 0, cgroup: str = "0::/user.slice\n"
) -> None:
    """A process, or the same one in a new state."""
    folder = root / str(pid)
    folder.mkdir(exist_ok=True)
    zeros = " ".join(["0"] * 18)
    (folder / "stat").write_text(f"{pid} ({name}) {state} {zeros} {start_ticks} 0 0\n")
    (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (folder / "cgroup").write_text(cgroup)
    (folder / "cmdline").write_text("python\0train.py\0--api-key=hunter2\0")

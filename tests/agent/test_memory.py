import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agent import memory

ROOT = Path(__file__).resolve().parents[2]
SMAPS = """\
55d0c0000000-55d0c0010000 r-xp 00001000 fe:00 123 /usr/lib/libcode.so
Rss:                  64 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
55d0c0010000-55d0c0012000 r--p 00011000 fe:00 123 /usr/lib/libcode.so
Anonymous:             8 kB
55d0c0012000-55d0c0013000 rw-p 00013000 fe:00 123 /usr/lib/libcode.so
Anonymous:             0 kB
55d0c1000000-55d0c1001000 r--s 00000000 fe:00 124 /usr/lib/shared cache
Anonymous:             0 kB
7f0000000000-7f0000100000 r--p 00000000 00:00 0
Anonymous:             0 kB
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
"""


def test_only_mappings_that_hold_nothing_of_our_own_may_be_dropped():
    assert list(memory.unchanged_file_mappings(SMAPS.splitlines())) == [(0x55D0C0000000, 0x10000)]


def test_a_process_works_on_after_settling_and_is_smaller():
    script = (
        "import json, re, ssl, sys; from agent import memory\ndef rss(): return"
        " int(re.search(r'Rss: +(\\d+)', open('/proc/self/smaps_rollup').read()).group(1))\nbefore"
        " = rss(); memory.settle(); after = rss()\nssl.create_default_context();"
        " print(json.dumps([before, after, sorted({'b': 1, 'a': 2})]))"
    )

    out = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    before, after = (int(number) for number in re.findall(r"\d+", out)[:2])
    assert after < before
    assert '["a", "b"]' in out


def test_the_daemon_loads_no_source_no_command_and_no_books_that_it_was_not_asked_for():
    script = (
        "import sys; sys.argv = ['agent']; import agent.dispatch, agent.daemon; print(*sorted(name"
        " for name in sys.modules if name.startswith(('agent.', 'xml', 'subprocess'))))"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()

    assert "agent.loop" in loaded
    unwanted = {
        "agent.replay",
        "agent.check.look",
        "agent.check.report",
        "agent.sources.simulated",
        "agent.sources.nvidia_smi",
        "agent.sources.dcgm",
        "agent.workloads.slurm.client",
        "agent.workloads.kubernetes.client",
        "agent.workloads.docker.client",
    }
    assert unwanted & set(loaded) == set()
    assert not [name for name in loaded if not name.startswith("agent.")]


def loaded_from_a_zip(folder, text):
    """What a process prints whose bindings lie in a zip file with this text."""
    with zipfile.ZipFile(folder / "one.zip", "w") as archive:
        archive.writestr("pynvml.py", text)
    script = (
        "import sys; sys.path.insert(0, %r); from agent import memory\n"
        "memory.prepare(reads_nvml=True); module = sys.modules.get('pynvml')\n"
        "print(module and (module.nvmlInit(), hasattr(module, 'nvmlDeviceSetFanSpeed'),"
        " module.__spec__.name))"
    ) % str(folder / "one.zip")
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_bindings_in_a_zip_file_are_compiled_elsewhere_and_work_as_if_imported(tmp_path):
    text = "def nvmlInit(): return 7\ndef nvmlDeviceSetFanSpeed(): pass\n"

    assert loaded_from_a_zip(tmp_path, text) == "(7, False, 'pynvml')"


@pytest.mark.parametrize("text", ["def nvmlInit(:", "def nvmlInit(): return 7\nraise OSError"])
def test_bindings_that_can_not_be_loaded_do_not_end_the_start_nor_stay_half(tmp_path, text):
    assert loaded_from_a_zip(tmp_path, text) == "None"

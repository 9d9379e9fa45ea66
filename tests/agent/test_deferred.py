import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def output_of(script):
    return subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()


def test_a_deferred_module_works_for_whoever_asks_it_first():
    script = (
        "import sys; from agent import deferred; deferred.defer(); import gzip\nprint('zlib' in"
        " sys.modules, gzip.decompress(gzip.compress(b'hello')).decode())\nimport gzip as again;"
        " from gzip import GzipFile; print(again.compress is gzip.compress)"
    )

    assert output_of(script)[1:] == ["hello", "True"]


def test_an_exception_is_logged_with_its_lines_though_traceback_was_put_off():
    script = (
        "from agent import deferred; deferred.defer(); import logging,"
        " sys\nlogging.basicConfig(stream=sys.stdout)\ntry: 1 / 0\nexcept ZeroDivisionError:"
        " logging.exception('a step failed')"
    )

    out = output_of(script)

    assert "Traceback" in out
    assert "ZeroDivisionError:" in out


def test_what_was_loaded_before_stays():
    script = (
        "import sys, gzip; before = sys.modules['gzip']; from agent import deferred;"
        " deferred.defer(); print(sys.modules['gzip'] is before)"
    )

    assert output_of(script) == ["True"]


def test_a_daemon_that_nothing_befalls_loads_none_of_what_is_seldom_used():
    script = (
        "import sys; from agent import deferred, memory; deferred.defer(); from agent import config"
        "\nconfig.parse(['run', '--server', 'http://h', '--token', 't'], {})\n"
        "memory.prepare(reads_nvml=True); import agent.dispatch, agent.daemon\nfrom types"
        " import ModuleType\nprint(*(name for name, module in sys.modules.items() if type(module)"
        " is ModuleType))"
    )

    loaded = set(output_of(script))

    assert "agent.daemon" in loaded
    unwanted = {"argparse", "agent.flags", "urllib.request", "tempfile", "traceback", "shutil"}
    assert loaded & {*unwanted, "uuid", "subprocess", "ipaddress", "gzip"} == set()

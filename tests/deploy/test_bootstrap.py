"""By which interpreter .venv is made."""

import importlib.util
import os
import sys
import sysconfig
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "deploy" / "bootstrap.py"
PYENV = "'--prefix=/root/.pyenv/versions/3.11.7' '--enable-shared'"
SYSTEMS = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def bootstrap():
    spec = importlib.util.spec_from_file_location("bootstrap", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("options", "prefix", "is_plain"),
    [
        (PYENV, "/root/.pyenv/versions/3.11.7", True),
        (f"{PYENV} '--enable-optimizations' '--with-lto'", "/root/.pyenv/versions/3.11.7", False),
        ("'--enable-shared' '--prefix=/usr'", "/usr", False),  # Debian's, by a profile all the same
        ("", "/opt/python", False),  # nothing is known of it
    ],
)
def test_what_was_compiled_without_a_profile_is_known_by_its_options(
    bootstrap, options, prefix, is_plain
):
    assert bootstrap.is_compiled_plainly(options, prefix) is is_plain


@pytest.mark.parametrize(
    ("is_there", "is_whole", "asked", "started"),
    [
        (True, True, {}, [SYSTEMS]),
        (True, True, {"PYTHON": "python3"}, []),  # make PYTHON=…
        (True, False, {}, []),  # without ensurepip
        (False, True, {}, []),
    ],
)
def test_the_systems_interpreter_is_taken_for_a_plain_one_unless_one_is_named(
    bootstrap, monkeypatch, is_there, is_whole, asked, started
):
    begun = []
    monkeypatch.delenv("PYTHON", raising=False)
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "base_prefix", "/root/.pyenv/versions/3.11.7")
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _: PYENV)
    monkeypatch.setattr(os, "access", lambda path, _: is_there and path == SYSTEMS)
    monkeypatch.setattr(bootstrap, "is_whole", lambda _: is_whole)
    monkeypatch.setattr(os, "execv", lambda path, _: begun.append(path))

    bootstrap.go_on_with_faster_python()

    assert begun == started


def test_an_interpreter_without_ensurepip_is_not_whole(bootstrap):
    assert bootstrap.is_whole(sys.executable)
    assert not bootstrap.is_whole("/bin/false")

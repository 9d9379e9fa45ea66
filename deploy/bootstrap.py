"""Makes .venv with the pinned requirements; every refusal is one clear line and exit status 2.

Runs on whatever `python3` is there, so it keeps to syntax that old ones read too.
    python3 deploy/bootstrap.py run         what FleetWatch runs on
    python3 deploy/bootstrap.py dev         and what its tests and checks need
    python3 deploy/bootstrap.py browser     and headless Chromium for the browser tests
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
# what browsers are given from npm, and what tests look at pages with
SCRIPTS = [os.path.join("deploy", "npm", name) for name in ("package.json", "package-lock.json")]
CHARTS = os.path.join("node_modules", "plotly.js-cartesian-dist-min", "plotly-cartesian.min.js")
OLDEST = (3, 11)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def refuse(text):
    sys.stderr.write("fleetwatch: %s\n" % text)
    sys.exit(2)


def go_on_with_new_enough_python():
    """Starts this file again by a newer interpreter on PATH when this one is too old."""
    if sys.version_info[:2] >= OLDEST:
        return
    for name in ("python3.14", "python3.13", "python3.12", "python3.11"):
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK):
                os.execv(path, [path] + sys.argv)
    refuse(
        "Python 3.11 or newer is needed, this is %d.%d: install python3.11 and try again"
        % sys.version_info[:2]
    )


def go_on_with_faster_python():
    """Starts this file again by the system's interpreter where it is the faster one."""
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    if is_compiled_plainly(options, sys.base_prefix) and "PYTHON" not in os.environ:
        path = "/usr/bin/python%d.%d" % sys.version_info[:2]
        if os.access(path, os.X_OK) and is_whole(path):
            os.execv(path, [path] + sys.argv)


def is_compiled_plainly(options, prefix):
    """Whether an interpreter, configured with these options, was compiled without optimisation by
    a profile, as pyenv does by default: it takes a third longer for what it does itself. The
    system's are compiled with it, whatever their options say.
    """
    return bool(options) and prefix != "/usr" and "--enable-optimizations" not in options


def is_whole(path):
    """Whether the interpreter can make environments with pip in them."""
    return subprocess.call([path, "-c", "import ensurepip, venv"], stderr=subprocess.DEVNULL) == 0


def stamp_of(files):
    facts = hashlib.sha256()
    for name in files:
        with open(os.path.join(ROOT, name), "rb") as file:
            facts.update(file.read())
    return facts.hexdigest()


def make_venv():
    python = os.path.join(VENV, "bin", "python")
    if (
        os.path.exists(python)
        and subprocess.call([python, "-c", "import pip"], stderr=subprocess.DEVNULL) == 0
    ):
        return python
    shutil.rmtree(VENV, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "venv", VENV], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        if b"ensurepip" in done.stdout or b"No module named venv" in done.stdout:
            refuse(
                "Python's venv module is incomplete: apt install python3-venv (or your system's"
                " package of it)"
            )
        refuse(
            "can't make %s: %s"
            % (VENV, done.stdout.decode("utf-8", "replace").strip().splitlines()[-1])
        )
    return python


def install(python, files):
    """Installs what the files pin, once for each content of them; only ready-made packages, so no
    compiler is needed.
    """
    stamp_file = os.path.join(VENV, ".stamp-" + "-".join(name.split(".")[0] for name in files))
    wanted = stamp_of(files)
    if read(stamp_file) == wanted:
        return
    sys.stdout.write("fleetwatch: installing %s\n" % " and ".join(files))
    sys.stdout.flush()
    pip_install(python, files)
    with open(stamp_file, "w") as file:
        file.write(wanted)


def pip_install(python, files):
    """Refuses with pip's last error, or else its last line."""
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes"]
    command = [python, "-m", "pip", "install"] + options + ["--only-binary", ":all:"]
    for name in files:
        command += ["-r", os.path.join(ROOT, name)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    errors = [line for line in lines if line.startswith("ERROR")]
    reasons = errors or [line for line in lines if line.strip()] or ["no output"]
    refuse("installing the requirements failed: %s" % reasons[-1])


def install_scripts(is_for_tests):
    """npm's packages into .venv/npm, as locked, once for each content of the lock: plotly.js as
    far as our charts need it, for tests axe-core besides. Where npm is not there or reaches no
    registry nothing is refused: the charts come with the whole plotly.js of its Python package,
    three times as long.
    """
    stamps = [os.path.join(VENV, ".stamp-npm" + kind) for kind in ("-tests", "")]
    wanted = stamp_of(SCRIPTS)
    if any(read(stamp) == wanted for stamp in stamps[: 1 if is_for_tests else 2]):
        return
    reason = npm_install(is_for_tests) if shutil.which("npm") else "there is no npm"
    if reason:
        sys.stdout.write("fleetwatch: charts come with the whole plotly.js: %s\n" % reason)
        return
    with open(stamps[0 if is_for_tests else 1], "w") as file:
        file.write(wanted)


def read(path):
    """The text of the file; "" where there is none."""
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()


def npm_install(is_for_tests):
    """Why npm could not bring them; "" where it did."""
    folder = os.path.join(VENV, "npm")
    charts = os.path.join(VENV, "share", "plotly")
    for path in (folder, charts):
        os.makedirs(path, exist_ok=True)
    for name in SCRIPTS:
        shutil.copy(os.path.join(ROOT, name), folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"]
    done = subprocess.run(
        command + ([] if is_for_tests else ["--omit=dev"]),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        errors = [line for line in lines if "error" in line.lower()]
        return (errors or ["npm ci failed"])[0][:200]
    shutil.copy(os.path.join(folder, CHARTS), os.path.join(charts, "plotly.min.js"))
    return ""


def ensure_browser():
    """Chromium, installed by apt where we may."""
    if os.environ.get("FLEETWATCH_CHROMIUM") or any(shutil.which(name) for name in BROWSERS):
        return
    if not shutil.which("apt-get"):
        refuse(
            "the browser tests need Chromium: install it, or set FLEETWATCH_CHROMIUM to its path"
        )
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    sys.stdout.write("fleetwatch: installing chromium\n")
    sys.stdout.flush()
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"],
    ):
        done = subprocess.run(
            prefix + command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode != 0:
            refuse(
                "the browser tests need Chromium, and apt-get could not install it: set"
                " FLEETWATCH_CHROMIUM to a Chromium's path"
            )


def main():
    go_on_with_new_enough_python()
    go_on_with_faster_python()
    what = sys.argv[1] if len(sys.argv) > 1 else "run"
    python = make_venv()
    install(python, ["requirements.txt"])
    if what in ("dev", "browser"):
        install(python, ["requirements-dev.txt"])
    install_scripts(is_for_tests=what != "run")
    if what == "browser":
        ensure_browser()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.stderr.write("fleetwatch: interrupted\n")
        sys.exit(130)

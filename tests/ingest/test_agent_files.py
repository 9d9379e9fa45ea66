"""What a host without anything fetches: the agent, its checksum, the script that installs it."""

import hashlib
import subprocess
import sys


def test_the_agent_that_is_served_runs(client, tmp_path):
    answer = client.get("/agent/fleetwatch-agent.pyz")
    path = tmp_path / "agent.pyz"
    path.write_bytes(answer.content)

    told = subprocess.run(
        [sys.executable, "-I", path, "--help"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )

    assert answer.status_code == 200
    assert told.returncode == 0, told.stderr


def test_the_checksum_is_the_files(client):
    file = client.get("/agent/fleetwatch-agent.pyz").content

    assert (
        client.get("/agent/fleetwatch-agent.pyz.sha256").content.decode()
        == f"{hashlib.sha256(file).hexdigest()}  fleetwatch-agent.pyz\n"
    )


def test_the_script_knows_its_hub_and_the_checksum(client, settings):
    settings.PUBLIC_URL = "https://hub.example.org"

    script = client.get("/agent/install.sh").content.decode()

    assert '\nSERVER=https://hub.example.org TOKEN="" ' in script
    assert hashlib.sha256(client.get("/agent/fleetwatch-agent.pyz").content).hexdigest() in script


def test_a_hostile_public_address_is_only_text(client, settings, tmp_path):
    settings.PUBLIC_URL = f"https://x'; touch {tmp_path}/owned; $(touch {tmp_path}/owned) `id` \""

    script = client.get("/agent/install.sh").content
    subprocess.run(["sh", "-s", "--", "--help"], input=script, capture_output=True, check=True)

    assert not (tmp_path / "owned").exists()


def test_nothing_is_posted_there(client):
    assert client.post("/agent/install.sh").status_code == 405

import html

import pytest


@pytest.mark.parametrize("path", ["/settings/enrollment", "/welcome"])
@pytest.mark.parametrize(
    ("address", "is_said"), [("http://127.0.0.1:8000", True), ("https://fleet.example.com", False)]
)
def test_an_install_command_that_works_on_the_hubs_machine_alone_says_so(
    address, is_said, path, admin, settings
):
    settings.PUBLIC_URL = address

    page = html.unescape(admin.post(path, {"uses": "3", "days": "2"}).content.decode())

    assert f"--server {address}" in page
    assert ("works only on the hub's own machine" in page) is is_said

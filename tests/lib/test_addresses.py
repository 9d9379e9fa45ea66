"""Whose address a request comes from, with none, one and two trusted proxies."""

import pytest

from fleetwatch.lib.addresses import client_address


@pytest.mark.parametrize(
    ("forwarded", "proxies", "address"),
    [
        ([], 0, "10.0.0.9"),
        (["192.0.2.1"], 0, "10.0.0.9"),
        (["192.0.2.1"], 1, "192.0.2.1"),
        (["203.0.113.5, 192.0.2.1"], 1, "192.0.2.1"),
        (["203.0.113.5", "192.0.2.1"], 1, "192.0.2.1"),
        (["203.0.113.5, 192.0.2.1, 10.0.0.2"], 2, "192.0.2.1"),
        ([], 1, "10.0.0.9"),
        ([" , "], 1, "10.0.0.9"),
        (["192.0.2.1"], 2, "10.0.0.9"),
        (["x" * 1000], 1, "x" * 64),
    ],
)
def test_the_outermost_trusted_proxy_is_believed(forwarded, proxies, address):
    assert client_address("10.0.0.9", forwarded, proxies=proxies) == address

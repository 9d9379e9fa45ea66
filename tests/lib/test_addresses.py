"""Whose address a request comes from, with none, one and two trusted proxies."""

import pytest

from fleetwatch.lib.addresses import client_address, holder_of, site_of


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


@pytest.mark.parametrize(
    ("address", "holder"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::2", "2001:db8:0:1::/64"),
        ("2001:db8:0:2::1", "2001:db8:0:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("unknown", "unknown"),
        ("", ""),
    ],
)
def test_an_ipv6_address_counts_with_all_that_its_holder_has(address, holder):
    assert holder_of(address) == holder


@pytest.mark.parametrize(
    ("holder", "site"),
    [
        ("192.0.2.1", "192.0.2.0/24"),
        ("192.0.3.1", "192.0.3.0/24"),
        ("2001:db8:0:1::/64", "2001:db8::/48"),
        ("2001:db8:1::/64", "2001:db8:1::/48"),
        ("unknown", "unknown"),
        ("", ""),
    ],
)
def test_neighbours_have_the_network_of_their_site(holder, site):
    assert site_of(holder) == site

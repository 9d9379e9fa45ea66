"""Which addresses are called: by our own tables, whatever Python's say."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.lib.networks import Reach, inner, reach

NEVER = """
0.0.0.0 0.255.255.255 169.254.0.0 169.254.169.254 169.254.170.2 169.254.170.23 169.254.0.23 169.254.42.42 169.254.255.255
100.100.100.200 100.96.0.96 100.80.80.80 168.63.129.16 192.0.0.0 192.0.0.9 192.0.0.170 192.0.0.192 192.0.0.255
192.88.99.1 224.0.0.0 239.255.255.255 255.255.255.255
:: fe80:: fe80::a9fe:a9fe febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42
fd00:a9fe:a9fe::1 64:ff9b:1::1 64:ff9b:1:ffff:ffff:ffff:ffff:ffff 100::1 100:0:0:1::1 2001::1 2001:0:53aa:64c:0:1:5601:5601 5f00::1 ff02::1
::ffff:169.254.169.254 ::169.254.169.254 ::ffff:0:169.254.169.254 64:ff9b::169.254.169.254 2002:a9fe:a9fe::1 ::192.0.0.192 ::0.0.0.2
::5efe:169.254.169.254 ::200:5efe:169.254.169.254 fe80::5efe:10.0.0.1 2001:db8::5efe:a9fe:a9fe 2a00:1450::5efe:169.254.169.254
2a00:1450::200:5efe:a9fe:a9fe 2a00:1450::300:5efe:192.0.0.192 fd00::5efe:100.100.100.200 2002:808:808::5efe:169.254.169.254
2001:0:a9fe:a9fe::1 2001:0:5db8:d822::5601:5601 64:ff9b:1::a9fe:a9fe 64:ff9b:1:fffe::5db8:d822
"""
PRIVATE = """
10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 172.16.0.1 172.31.255.255 192.0.2.1 192.168.0.1
198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 240.0.0.1 255.255.255.254
::1 fc00::1 fd12:3456::1 fdff::1 fec0::1 2001:2::1 2001:10::1 2001:1ff:ffff::1 2001:db8::1 3fff::1 3fff:fff::1 4000::1 1::1
::ffff:10.0.0.1 ::10.0.0.1 64:ff9b::10.0.0.1 2002:a00:1::1 2002:7f00:1::
2a00:1450::5efe:10.0.0.1 2a00:1450::200:5efe:127.0.0.1 fd00::5efe:93.184.216.34 ::5efe:93.184.216.34
"""
PUBLIC = """
1.0.0.0 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 168.63.129.15 168.63.129.17
169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.0.3.0 192.31.196.1 192.52.193.1 192.167.255.255
192.169.0.0 192.175.48.1 198.17.255.255 198.20.0.0 223.255.255.255
2000::1 2001:1::1 2001:4:112::1 2001:20::1 2001:200::1 2600::1 2620:4f:8000::1 2a00:1450::1 3ffe::1 3fff:1000::1
::ffff:93.184.216.34 ::93.184.216.34 64:ff9b::93.184.216.34 2002:5db8:d822::1
2a00:1450::5efe:93.184.216.34 2a00:1450::200:5efe:5db8:d822 2a00:1450::5eff:169.254.169.254 2a00:1450::400:5efe:169.254.169.254
"""


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (address, kind)
        for kind, text in ((Reach.NEVER, NEVER), (Reach.PRIVATE, PRIVATE), (Reach.PUBLIC, PUBLIC))
        for address in text.split()
    ],
)
def test_each_block_of_the_registries_is_judged_at_its_edges(address, expected):
    assert reach(ip_address(address)) is expected


@given(st.integers(0, 2**32 - 1))
def test_no_way_to_write_an_ipv4_address_into_an_ipv6_one_reaches_further(number):
    plain = IPv4Address(number)
    written = [
        number + (0xFFFF << 32),
        number + (0xFFFF << 48),
        number + (0x64FF9B << 96),
        (0x2002 << 112) + (number << 80) + 1,
    ]
    if number > 1:  # ::1 is IPv6's own loopback
        written.append(number)

    assert {inner(IPv6Address(each)) for each in written} == {plain}
    assert {reach(IPv6Address(each)) for each in written} == {reach(plain)}

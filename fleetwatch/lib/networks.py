"""Which addresses messages may go to: tables of our own, so that no version of Python decides it.
Pure.

IANA's registries of special purpose addresses, as of 2026, are the source, with what of them no
message goes to: https://www.iana.org/assignments/iana-ipv4-special-registry,
https://www.iana.org/assignments/iana-ipv6-special-registry
"""

from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Reach(Enum):
    """How far from us an address lies; the less free, the earlier."""

    NEVER = "link-local, metadata, multicast or no host's at all"
    PRIVATE = "of this host, of a private or a reserved network"
    PUBLIC = "of the internet"


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ip_network(word) for word in text.split())


# Neighbours of the link and clouds' services: nothing that a person would want a message sent to,
# and what the metadata
# services answer are credentials. Most of them are in 169.254.0.0/16 and fe80::/10; those that are
# not:
# 100.100.100.200 Alibaba · 100.96.0.96 Volcengine · 100.80.80.80 UCloud · 168.63.129.16 Azure ·
# 192.0.0.192 Oracle
# fd00:ec2::/32 AWS · fd20:ce::254 Google · fd00:c1::a9fe:a9fe Oracle · fd00:42::42 Scaleway ·
# fd00:a9fe:a9fe::/48 Linode
METADATA = _networks(
    "169.254.0.0/16 100.100.100.200/32 100.96.0.96/32 100.80.80.80/32 168.63.129.16/32"
    " 192.0.0.192/32 fe80::/10 fd00:ec2::/32 fd20:ce::254/128 fd00:c1::a9fe:a9fe/128"
    " fd00:42::42/128 fd00:a9fe:a9fe::/48"
)
# No host's: this network, protocols' own, relays, multicast, broadcast, discard, dummies; and IPv6
# addresses that hide an IPv4 one where it can't be read for sure (NAT64 of a site, Teredo).
NO_HOST = _networks(
    "0.0.0.0/8 192.0.0.0/24 192.88.99.0/24 224.0.0.0/4 255.255.255.255/32"
    " ::/128 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/32 5f00::/16 ff00::/8"
)
# This host, private networks, documentation, benchmarks, reserved. Of IPv6 also all that is not
# 2000::/3 (see `reach`).
PRIVATE = _networks(
    "10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.0.2.0/24 192.168.0.0/16 198.18.0.0/15"
    " 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 2001::/23 2001:db8::/32 3fff::/20"
)
# What 2001::/23 has for all: anycast of protocols, AS112, ORCHIDv2, drone ids.
PUBLIC = _networks(
    "2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:3::/32 2001:4:112::/48 2001:20::/28"
    " 2001:30::/28"
)
GLOBAL_UNICAST = IPv6Network("2000::/3")

MAPPED = IPv6Network("::ffff:0:0/96")
TRANSLATED = IPv6Network("::ffff:0:0:0/96")  # RFC 2765, before NAT64
COMPATIBLE = IPv6Network("::/96")
NAT64 = IPv6Network("64:ff9b::/96")
SIX_TO_FOUR = IPv6Network("2002::/16")
# Above the IPv4 address of an ISATAP one; the group and the universal bit of the interface's id may
# be set or not.
ISATAP = 0x0000_5EFE
ISATAP_MASK = 0xFCFF_FFFF
LOOPBACK = IPv6Address("::1")


def reach(address: Address) -> Reach:
    """How far the host lies that the address leads to, or an IPv4 address within it; of two hosts
    the one that is less free.
    """
    tunnelled = _isatap(address)
    reaches = {_reach_of(host) for host in (inner(address), tunnelled) if host is not None}
    return next(kind for kind in Reach if kind in reaches)


def _reach_of(host: Address) -> Reach:
    if _is_in(host, METADATA) or _is_in(host, NO_HOST):
        return Reach.NEVER
    if _is_in(host, PUBLIC):
        return Reach.PUBLIC
    if _is_in(host, PRIVATE) or (host.version == 6 and host not in GLOBAL_UNICAST):
        return Reach.PRIVATE
    return Reach.PUBLIC


def inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, as the system or a gateway reads it; else the
    address itself.
    """
    if isinstance(address, IPv4Address):
        return address
    if address in SIX_TO_FOUR:
        return IPv4Address((int(address) >> 80) & 0xFFFF_FFFF)
    if address in COMPATIBLE and (address == LOOPBACK or int(address) == 0):
        return address
    if any(address in network for network in (MAPPED, TRANSLATED, COMPATIBLE, NAT64)):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _isatap(address: Address) -> IPv4Address | None:
    """The host behind an ISATAP address (RFC 5214), whatever its prefix; None where it is none."""
    if isinstance(address, IPv4Address) or (int(address) >> 32) & ISATAP_MASK != ISATAP:
        return None
    return IPv4Address(int(address) & 0xFFFF_FFFF)


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks if network.version == address.version)

"""Whose address a request comes from."""

from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address, ip_network

HOST_BITS = 64  # of an IPv6 address: whoever has one has all of them
SITE_BITS = {4: 24, 6: 48}  # what is mostly given to one owner


def client_address(peer: str, forwarded: Sequence[str], *, proxies: int) -> str:
    """The address that the outermost trusted proxy saw; without proxies the connection's own.

    `forwarded` are the values of X-Forwarded-For: each proxy adds the address of who spoke to it at
    the end, so with two proxies the last but one is true, and what stands before it is only
    claimed. Where fewer were added than there should be, somebody came past a proxy: its own
    address counts.
    """
    if not proxies:
        return peer
    named = [part.strip() for value in forwarded for part in value.split(",") if part.strip()]
    return named[-proxies][:64] if len(named) >= proxies else peer


def holder_of(address: str) -> str:
    """What limits for an address count by: an IPv4 address, or the /64 of an IPv6 one; anything
    else as it is.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> HOST_BITS << HOST_BITS)}/{HOST_BITS}"


def site_of(holder: str) -> str:
    """The network that a holder's neighbours are in, who mostly have one owner: a /24, of IPv6 a
    /48; anything else as it is.
    """
    try:
        network = ip_network(holder)
    except ValueError:
        return holder
    return str(network.supernet(new_prefix=SITE_BITS[network.version]))

"""Who is at the other end of a request: an address, and the network that its owner can take another
one from.
"""

from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

from fleetwatch.lib.addresses import client_address

UNKNOWN = ""  # a unix socket has no address


def client_of(request: HttpRequest) -> str:
    """The client's address as the trusted proxies tell it, in its usual form; UNKNOWN where there
    is none.
    """
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "")
    text = client_address(
        request.META.get("REMOTE_ADDR", ""),
        [forwarded],
        proxies=settings.ALLAUTH_TRUSTED_PROXY_COUNT,
    )
    try:
        address = ip_address(text)
    except ValueError:
        return UNKNOWN
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(inner or address)


def network_of(address: str, *, ipv4: int, ipv6: int) -> str:
    """The network of so many bits that the address lies in, such as 10.1.2.0/24; UNKNOWN for
    UNKNOWN.
    """
    if address == UNKNOWN:
        return UNKNOWN
    bits = ipv6 if ":" in address else ipv4
    return str(ip_network(f"{address}/{bits}", strict=False))

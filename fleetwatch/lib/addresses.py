"""Whose address a request comes from."""

from collections.abc import Sequence


def client_address(peer: str, forwarded: Sequence[str], *, proxies: int) -> str:
    """The address that the outermost trusted proxy saw; without proxies the connection's own.

    `forwarded` are the values of X-Forwarded-For: each proxy adds the address of who spoke to it at the end, so with
    two proxies the last but one is true, and what stands before it is only claimed. Where fewer were added than there
    should be, somebody came past a proxy: its own address counts.
    """
    if not proxies:
        return peer
    named = [part.strip() for value in forwarded for part in value.split(",") if part.strip()]
    return named[-proxies][:64] if len(named) >= proxies else peer

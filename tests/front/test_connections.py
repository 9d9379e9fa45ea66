"""Who is disconnected: who let us wait too long, and where there is no room, who let us wait
longest.
"""

import pytest

from fleetwatch.front.connections import Connection, Connections, Waits


class Peer:
    """A connection that notes its end."""

    def __init__(self, *, address="192.0.2.1", since=0.0, waits_for=Waits.HEAD, unsent=0):
        self.is_ended = False
        self.connection = Connection(self.end, lambda: unsent, address, since, waits_for)

    def end(self):
        self.is_ended = True


def register(*peers, per_address=10, in_all=10):
    made = Connections(per_address=per_address, in_all=in_all)
    assert [made.add(peer.connection) for peer in peers] == [True] * len(peers)
    return made


@pytest.mark.parametrize(
    ("waits_for", "unsent", "limit_s"),
    [
        (Waits.HEAD, 0, 10),
        (Waits.NEXT, 0, 75),
        (Waits.BATCH, 0, 20),
        (Waits.ANSWER, 0, 20),
        (Waits.ANSWER, 1, 20),
        (Waits.NEXT, 1, 20),
        (Waits.HEAD, 1, 10),
    ],
)
def test_each_wait_has_its_end(waits_for, unsent, limit_s):
    peer = Peer(since=100.0, waits_for=waits_for, unsent=unsent)
    connections = register(peer)

    assert connections.end_overdue(100.0 + limit_s) == 0
    assert not peer.is_ended
    assert connections.end_overdue(100.1 + limit_s) == 1
    assert peer.is_ended
    assert len(connections) == 0


@pytest.mark.parametrize("waits_for", [None, Waits.BODY])
def test_who_waits_for_us_is_not_disconnected_and_a_body_has_a_limit_of_its_own(waits_for):
    peer = Peer(waits_for=waits_for)

    assert register(peer).end_overdue(10_000.0) == 0


@pytest.mark.parametrize("waits_for", [None, *Waits])
def test_an_answer_that_is_not_taken_ends_in_every_state_and_a_new_wait_gives_no_time(waits_for):
    peer = Peer(since=100.0, waits_for=None, unsent=1)
    connections = register(peer)
    peer.connection.wait_for(waits_for, 119.0)

    assert connections.end_overdue(120.0) == 0
    assert connections.end_overdue(120.1) == 1


def test_who_took_all_meanwhile_has_its_time_anew():
    unsent = [0]
    connection = Connection(lambda: None, lambda: unsent[0], "192.0.2.1", 100.0, None)
    connections = Connections(per_address=1, in_all=1)
    connections.add(connection)

    assert connections.end_overdue(150.0) == 0
    unsent[0] = 1
    assert connections.end_overdue(170.0) == 0
    assert connections.end_overdue(170.1) == 1


def test_who_waits_for_us_and_does_not_take_an_answer_makes_room():
    reader = Peer(waits_for=None, unsent=1)
    connections = register(reader, per_address=1)

    assert connections.add(Peer(since=4).connection)
    assert reader.is_ended


def test_one_more_of_an_address_costs_the_one_of_it_that_let_us_wait_longest():
    patient, older, newer = Peer(since=1, waits_for=None), Peer(since=2), Peer(since=3)
    other = Peer(address="192.0.2.2", since=0)
    connections = register(patient, older, newer, other, per_address=3)
    one_more = Peer(since=4)

    assert connections.add(one_more.connection)

    assert [peer.is_ended for peer in (patient, older, newer, other, one_more)] == [
        False,
        True,
        False,
        False,
        False,
    ]
    assert len(connections) == 4


def test_an_address_whose_requests_are_all_being_answered_gets_no_more():
    connections = register(*[Peer(waits_for=None) for _ in range(3)], per_address=3)
    one_more, other = Peer(), Peer(address="192.0.2.2")

    assert not connections.add(one_more.connection)
    assert connections.add(other.connection)
    assert len(connections) == 4


def test_without_room_the_address_that_holds_most_gives_way():
    greedy = [Peer(since=number) for number in range(3)]
    modest = Peer(address="192.0.2.2", since=0)
    connections = register(*greedy, modest, in_all=4)

    assert connections.add(Peer(address="192.0.2.3").connection)

    assert [peer.is_ended for peer in (*greedy, modest)] == [True, False, False, False]
    assert len(connections) == 4


def test_connections_of_a_proxy_count_for_nobody_until_a_request_names_one():
    unnamed = [Peer(address=None, since=number) for number in range(3)]
    connections = register(*unnamed, per_address=1)

    assert connections.move_to(unnamed[0].connection, "192.0.2.1")
    assert connections.move_to(unnamed[1].connection, "192.0.2.1")

    assert [peer.is_ended for peer in unnamed] == [True, False, False]
    assert connections.move_to(unnamed[1].connection, "192.0.2.2")
    assert connections.move_to(unnamed[2].connection, "192.0.2.1")
    assert len(connections) == 2


def test_who_is_closed_leaves_room():
    peers = [Peer(), Peer()]
    connections = register(*peers, per_address=2)

    for peer in (peers[0], peers[0], peers[1]):
        connections.remove(peer.connection)

    assert connections.add(Peer().connection)
    assert connections.add(Peer().connection)
    assert not any(peer.is_ended for peer in peers)

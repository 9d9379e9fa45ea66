"""What is sent of one thread, in which order, and what of it is edited."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from fleetwatch.notify import delivering, selectors, services, transports
from fleetwatch.notify.models import Channel, Delivery, RemoteMessage
from fleetwatch.notify.services import Recipient
from fleetwatch.notify.transports import TRANSPORTS
from fleetwatch.notify.transports.base import (
    AddressRefusedError,
    Config,
    Envelope,
    Receipt,
    TransportError,
)
from tests.notify.factories import NOON, deliver, email_channel, queue, slack_channel

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@dataclass
class Board:
    """A channel that can edit what stands on it: each note by its number."""

    kind = "board"
    label = "Notice board"
    fields = ()
    can_edit = True
    person_by = "desk"
    notes: list[str] = field(default_factory=list)
    seen: list[Envelope] = field(default_factory=list)
    failures: list[TransportError] = field(default_factory=list)

    def validate(self, config: Mapping[str, str]) -> Config:
        return {}

    def describe(self, config: Mapping[str, str]) -> str:
        return "the board"

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        self.seen.append(envelope)
        if self.failures:
            raise self.failures.pop(0)
        title = envelope.message.title
        if envelope.message.is_reply:
            self.notes.append(f"{envelope.remote_id}: {title}")
            return Receipt("replied")
        if envelope.remote_id:
            self.notes[int(envelope.remote_id)] = title
            return Receipt("edited", envelope.remote_id)
        self.notes.append(title)
        return Receipt("posted", str(len(self.notes) - 1))


@pytest.fixture
def board(monkeypatch) -> Board:
    board = Board()
    monkeypatch.setattr(transports, "TRANSPORTS", (*TRANSPORTS, board))
    return board


def board_channel(name: str = "board") -> Channel:
    return services.create_channel("board", name, {}, now=NOON)


def states() -> list[str]:
    return list(Delivery.objects.order_by("pk").values_list("state", flat=True))


@pytest.mark.django_db
def test_a_thread_is_its_key_unless_it_is_named(slack):
    channel = slack_channel(slack.url)

    queue(channel, key="report/2026-47")
    queue(channel, key="incident/7/opened", thread="incident/7")

    threads = Delivery.objects.order_by("pk").values_list("thread", flat=True)
    assert list(threads) == ["report/2026-47", "incident/7"]


@pytest.mark.django_db
def test_one_key_reaches_each_address_once(board):
    channel = board_channel()
    people = [Recipient(channel), Recipient(channel, "ana"), Recipient(channel, "ben")]

    queued = [queue(*people), queue(*people, *people, Recipient(channel, "eve"))]
    deliver()

    assert queued == [3, 1]
    assert sorted(each.address for each in board.seen) == ["", "ana", "ben", "eve"]


@pytest.mark.django_db
def test_one_stuck_message_holds_none_of_its_channel(board):
    channel = board_channel()
    board.failures += [TransportError("it breaks on this one")]
    queue(channel, key="1", thread="stuck", title="stuck")
    queue(channel, key="2", thread="other", title="other")
    queue(Recipient(channel, "ana"), key="1", thread="stuck", title="to ana")

    did = deliver()

    assert (did["sent"], did["retry"]) == (2, 1)
    assert board.notes == ["other", "to ana"]


@pytest.mark.django_db
def test_a_message_that_another_version_wrote_fails_alone(board):
    channel = board_channel()
    queue(channel, key="1", title="newer")
    Delivery.objects.update(message={"title": "newer", "summary": "", "severity": "fatal"})
    queue(channel, key="2", title="other")

    did = deliver()

    assert (did["failed"], did["sent"], board.notes) == (1, 1, ["other"])
    assert states() == ["failed", "sent"]
    assert "can't read the message" in Delivery.objects.get(key="1").last_answer


@pytest.mark.django_db
def test_a_channel_that_fails_twice_is_left_for_the_next_call(board):
    channel = board_channel()
    board.failures += [TransportError("no answer") for _ in range(5)]
    for number in range(5):
        queue(channel, key=str(number))

    tried = [len(board.seen), deliver()["retry"], deliver(NOON + 15 * SECOND)["retry"]]

    assert tried == [0, 2, 2]
    assert [each.thread for each in board.seen] == ["0", "1", "2", "3"]


@pytest.mark.django_db
def test_what_was_never_tried_goes_before_what_failed(board):
    channel = board_channel()
    board.failures += [TransportError("no answer")]
    queue(channel, key="failed", title="failed")
    deliver()
    queue(channel, key="fresh", title="fresh", now=NOON + MINUTE)

    deliver(NOON + MINUTE)

    assert board.notes == ["fresh", "failed"]


@pytest.mark.django_db
def test_a_later_message_of_the_thread_edits_the_first(board):
    channel = board_channel()
    queue(channel, key="1", thread="incident/7", title="idle for 30 m")
    deliver()
    queue(channel, key="2", thread="incident/7", title="resolved", now=NOON + MINUTE)

    deliver(NOON + MINUTE)

    remote = RemoteMessage.objects.values_list("address", "thread", "remote_id", "updated_at")
    assert board.notes == ["resolved"]
    assert [each.remote_id for each in board.seen] == ["", "0"]
    assert remote.get() == ("", "incident/7", "0", NOON + MINUTE)


@pytest.mark.django_db
def test_each_address_has_a_message_of_its_own_of_a_thread(board):
    channel = board_channel()
    both = [Recipient(channel), Recipient(channel, "ana")]
    for title in ("idle", "resolved"):
        queue(*both, key=title, thread="incident/7", title=title)
        deliver()

    assert board.notes == ["resolved", "resolved"]
    assert [each.remote_id for each in board.seen] == ["", "", "0", "1"]


@pytest.mark.django_db
def test_a_newer_message_supersedes_the_older_ones_that_wait(board):
    channel = board_channel()
    for title in ("idle for 30 m", "idle for 45 m", "resolved"):
        queue(channel, key=title, thread="incident/7", title=title)

    did = deliver()

    assert did["sent"] == 1
    assert board.notes == ["resolved"]
    assert states() == ["superseded", "superseded", "sent"]


@pytest.mark.django_db
def test_a_failed_message_is_superseded_once_its_wait_is_over(board):
    channel = board_channel()
    board.failures += [TransportError("no answer")]
    queue(channel, key="1", thread="incident/7", title="idle")
    deliver()
    queue(channel, key="2", thread="incident/7", title="resolved", now=NOON + SECOND)

    deliver(NOON + MINUTE - SECOND)
    early = states()
    deliver(NOON + MINUTE)

    assert early == ["pending", "pending"]
    assert board.notes == ["resolved"]
    assert states() == ["superseded", "sent"]


@pytest.mark.django_db
def test_a_reply_is_never_superseded_and_goes_out_in_its_place(board):
    channel = board_channel()
    queue(channel, key="1", thread="incident/7", title="idle")
    queue(channel, key="2", thread="incident/7", title="idle for 2 h")
    queue(channel, key="3", thread="incident/7", title="reminder", is_reply=True)
    queue(channel, key="4", thread="incident/7", title="resolved")

    deliver()

    assert [each.message.title for each in board.seen] == ["idle for 2 h", "reminder", "resolved"]
    assert board.notes == ["resolved", "0: reminder"]
    assert states() == ["superseded", "sent", "sent", "sent"]


@pytest.mark.django_db
def test_where_nothing_can_be_edited_everything_is_sent_in_order(smtp):
    channel = email_channel(smtp.port)
    for title in ("idle", "resolved"):
        queue(channel, key=title, thread="incident/7", title=title)
    queue(channel, key="else", thread="incident/8", title="idle too")

    deliver()

    assert [mail["Subject"] for mail in smtp.script.mails] == ["idle", "resolved", "idle too"]
    first, last, other = [mail["References"] for mail in smtp.script.mails]
    assert first == last != other


@pytest.mark.django_db
def test_a_worker_that_dies_before_its_note_sends_again_and_edits_the_second(board):
    channel = board_channel()
    queue(channel, key="1", thread="incident/7", title="idle")
    dying = delivering._claim(NOON, Counter())
    delivering.send(channel, delivering._envelope(dying))

    deliver(NOON + delivering.CLAIM)
    queue(channel, key="2", thread="incident/7", title="resolved")
    deliver(NOON + delivering.CLAIM)

    assert board.notes == ["idle", "resolved"]


@pytest.mark.django_db
def test_a_worker_that_dies_after_an_edit_edits_the_same_again(board):
    channel = board_channel()
    queue(channel, key="1", thread="incident/7", title="idle")
    deliver()
    queue(channel, key="2", thread="incident/7", title="resolved")
    dying = delivering._claim(NOON, Counter())
    delivering.send(channel, delivering._envelope(dying))

    deliver(NOON + delivering.CLAIM)

    assert board.notes == ["resolved"]


@pytest.mark.django_db
def test_retry_after_pauses_the_whole_channel_for_exactly_that_and_no_other(board, slack):
    channel = board_channel()
    board.failures += [TransportError("too many", retry_after_s=17)]
    queue(channel, key="1")
    queue(channel, key="2")
    queue(slack_channel(slack.url), key="1")

    did = [deliver(NOON + seconds * SECOND) for seconds in (0, 16, 17)]

    assert [each["sent"] for each in did] == [1, 0, 2]
    assert len(slack.script.requests) == 1


@pytest.mark.django_db
def test_the_pause_counts_from_the_answer_and_not_from_the_start_of_the_call(board):
    channel = board_channel()
    board.failures += [TransportError("too many", retry_after_s=17)]
    queue(channel)
    seconds = iter([0.0, 0.0, 9.0, 9.0])  # the call, the claim, the answer, the next claim

    deliver(clock=lambda: next(seconds))

    channel.refresh_from_db()
    assert channel.paused_until == NOON + 26 * SECOND


@pytest.mark.django_db
def test_other_settings_end_a_pause(board):
    channel = board_channel()
    board.failures += [TransportError("too many", retry_after_s=600)]
    queue(channel)
    deliver()

    services.update_channel(channel, "board", {}, gets_digest=False)

    channel.refresh_from_db()
    assert channel.paused_until is None


@pytest.mark.django_db
def test_an_address_that_is_refused_fails_alone(board):
    channel = board_channel()
    board.failures += [AddressRefusedError("nobody sits there")]
    queue(Recipient(channel, "ghost"), key="1")
    queue(Recipient(channel, "ana"), key="1")

    did = deliver()

    assert (did["failed"], did["sent"], did["disabled"]) == (1, 1, 0)
    assert Delivery.objects.get(address="ghost").last_answer == "nobody sits there"


@pytest.mark.django_db
def test_what_is_for_one_person_is_never_read_by_a_whole_channel(slack):
    channel = slack_channel(slack.url)
    queue(Recipient(channel, "U2147483697"))

    did = deliver()

    assert (did["failed"], did["disabled"], slack.script.requests) == (1, 0, [])
    assert Delivery.objects.get().last_answer == (
        "a channel of Slack reaches no person by an address"
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    "address", ["ana", "ana@example.com\r\nBcc: eve@example.com", "a@example.com, b@example.com"]
)
def test_an_address_that_is_none_is_never_mailed(smtp, address):
    queue(Recipient(email_channel(smtp.port), address))

    did = deliver()

    assert (did["failed"], did["disabled"], smtp.script.mails) == (1, 0, [])


@pytest.mark.django_db
def test_people_are_reached_by_the_first_channel_that_is_on(smtp, slack, board):
    off = email_channel(smtp.port, name="off")
    services.set_enabled(off, False)
    mail, _, _ = [
        email_channel(smtp.port, name="mail"),
        email_channel(smtp.port, name="other mail"),
        slack_channel(slack.url),
    ]
    desks = board_channel()

    assert selectors.person_channels() == {"email": mail, "desk": desks}


@pytest.mark.django_db
def test_a_mail_that_a_dying_worker_sent_is_sent_again_with_its_message_id(smtp):
    channel = email_channel(smtp.port)
    queue(channel)
    dying = delivering._claim(NOON, Counter())
    delivering.send(channel, delivering._envelope(dying))

    deliver(NOON + delivering.CLAIM)

    first, second = [mail["Message-ID"] for mail in smtp.script.mails]
    assert first == second


@pytest.mark.django_db
def test_no_failure_or_death_reorders_or_loses_a_thread(board):
    """Three hundred random moments of three threads, two addresses and two channels."""
    dice = random.Random(17)
    channels = [board_channel("one"), board_channel("two")]
    queued: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for moment in range(300):
        at = NOON + 20 * moment * SECOND
        place = (dice.choice(channels), dice.choice(["", "ana"]), f"incident/{dice.randrange(3)}")
        what = dice.random()
        if what < 0.3 and moment < 270:
            title = f"{moment:04}"
            queue(
                Recipient(*place[:2]),
                key=title,
                thread=place[2],
                title=title,
                now=at,
                is_reply=dice.random() < 0.3,
            )
            queued[place[0].pk, place[1], place[2]].append(title)
        elif what < 0.4 and moment < 270:
            board.failures.append(TransportError("no answer", retry_after_s=dice.choice([None, 9])))
        elif what < 0.45:
            dying = delivering._claim(at, Counter())
            if dying and dice.random() < 0.5:
                with suppress(TransportError):
                    delivering.send(dying.channel, delivering._envelope(dying))
        else:
            deliver(at, limit=3, dice=dice.random)
    board.failures.clear()
    deliver(NOON + timedelta(hours=20), limit=999)

    sent: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for delivery in Delivery.objects.order_by("sent_at", "pk"):
        assert delivery.state in ("sent", "superseded")
        if delivery.state == "sent":
            sent[delivery.channel_id, delivery.address, delivery.thread].append(delivery.key)
    assert len(queued) == 12
    for place, titles in queued.items():
        # in order, and never without the last
        assert sent[place] == [title for title in titles if title in sent[place]]
        assert sent[place][-1] == titles[-1]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answer", "state", "is_on"),
    [("550 5.1.1 no such user", "failed", True), ("451 4.7.1 greylisted", "pending", True)],
)
def test_a_person_whose_mail_is_refused_switches_no_channel_off(smtp, answer, state, is_on):
    channel = email_channel(smtp.port)
    smtp.script.answers["ghost@example.com"] = answer
    queue(Recipient(channel, "ghost@example.com"), key="1")
    queue(channel, key="1")

    deliver()

    assert Delivery.objects.get(address="ghost@example.com").state == state
    assert smtp.script.recipients == [["ana@example.com"]]
    assert Channel.objects.get().is_enabled is is_on


@pytest.mark.django_db
def test_what_stands_of_a_thread_is_forgotten_after_ninety_days(board):
    queue(board_channel(), thread="incident/7")
    deliver()

    delivering.prune_deliveries(NOON + delivering.KEEP)
    at = RemoteMessage.objects.count()
    delivering.prune_deliveries(NOON + delivering.KEEP + SECOND)

    assert (at, RemoteMessage.objects.count()) == (1, 0)

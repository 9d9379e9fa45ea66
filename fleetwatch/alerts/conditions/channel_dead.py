"""The condition channel_dead: a channel by which nobody is reached any more."""

from collections.abc import Sequence

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import End, Episode, Level, Measured, Span
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.message import one_line
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.selectors import where

ARRIVES = "its messages arrive again"
GONE = "the channel was removed or switched off"
State = Delivery.State


def measure(watch: Watch) -> Measured:
    """Since when nothing that was tried arrives; a channel that people switched off is none."""
    channels = {str(each.pk): each for each in Channel.objects.all() if _is_watched(each)}
    spans = {subject: [_span(each, watch)] for subject, each in channels.items()}
    ends = {name: End(watch.end_ms, GONE) for name in watch.firing if name not in channels}
    return Measured(spans, ends, cleared=ARRIVES)


def _is_watched(channel: Channel) -> bool:
    return channel.is_enabled or channel.disabled_reason != ""


def _span(channel: Channel, watch: Watch) -> Span:
    since_ms = _failing_since_ms(channel)
    if since_ms is not None:
        return Span(min(since_ms, watch.end_ms - 1), watch.end_ms, Level.BREACH)
    return Span(watch.start_ms, watch.end_ms, Level.CLEAR)


def _failing_since_ms(channel: Channel) -> int | None:
    """Since when its oldest message that did not arrive is there, of those after the last one that
    did; None: its messages arrive, or there are none.
    """
    sent = channel.deliveries.filter(state=State.SENT).order_by("-sent_at").first()
    tried = channel.deliveries.filter(attempts__gt=0, address="").exclude(
        state__in=(State.SENT, State.SUPERSEDED)
    )
    if sent is not None:
        tried = tried.filter(created_at__gt=sent.created_at)
    oldest = tried.order_by("created_at").first()
    if oldest is not None:
        return to_ms(oldest.created_at)
    if channel.disabled_reason == "" or channel.is_enabled:
        return None
    return to_ms(sent.sent_at if sent and sent.sent_at else channel.created_at)


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode which channel, and what the other side answered; None of one that is gone."""
    channels = Channel.objects.in_bulk([int(each.subject) for each in episodes])
    there = [(each, channels.get(int(each.subject))) for each in episodes]
    return [None if channel is None else _breach(each, channel, watch) for each, channel in there]


def _breach(episode: Episode, channel: Channel, watch: Watch) -> Breach:
    name = one_line(channel.name, 60)
    return Breach(
        subject=episode.subject,
        kind="channel",
        address="/settings/channels",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="dead",
        tag="channel",
        title=f"channel dead · {name}",
        where=name,
        what=f"Nothing arrived through the channel {name}",
        does=f"Nothing arrives through the channel {name}",
        has=f"Nothing has arrived through the channel {name}",
        had="Nothing had arrived through it",
        limit=f"nothing arrives ≥ {watch.settings.minutes:g} min",
        name=name,
        has_cost=False,
        lines=(("Where", one_line(where(channel), 100)), ("Last answer", _answer(channel))),
        actions=("Fix: enter its settings again under Settings, or send a test message there.",),
    )


def _answer(channel: Channel) -> str:
    """Why it was switched off, else what was answered last."""
    last = channel.deliveries.exclude(last_answer="").order_by("-pk").first()
    return one_line(channel.disabled_reason or (last.last_answer if last else "none"))


CONDITION = Condition(
    name="channel_dead",
    label="Channel dead",
    sentence="Fires when nothing that was sent by a channel has arrived for {minutes} minutes.",
    kind="channel",
    unit="",
    low=0,
    high=0,
    usual=Settings(threshold=0, minutes=15),
    measure=measure,
    describe=describe,
    is_on=True,
    every_minutes=5,
    no_history=(
        "Of a channel only its newest deliveries are looked at: what was wrong with it before is"
        " not kept."
    ),
)

import gzip
import json
import logging
import threading
import time
import zlib
from email.utils import formatdate
from functools import partial

import pytest

from agent import packed, wire
from agent.batch import entry as entry_of
from agent.sending import sender
from agent.sending.payloads import batch_of
from agent.sending.sender import Outcome, Pump, Sender, Verdict, retry_after_s, wait_s
from agent.sending.split import split
from agent.sending.spool import Identity, Spool
from agent.sending.store import Entry
from tests.agent.factories import START, mapping

ACCEPTED = (200, {}, {"stored": 1, "duplicate": 0, "next_flush_s": 30, "actions": []})


@pytest.fixture
def spool(tmp_path):
    spool = Spool(tmp_path / "spool", identity=lambda _: Identity("boot", START))
    yield spool
    spool.close()


def rows(count, *, starts=None, gpus=1):
    starts = starts or [START + 10_000 * row for row in range(count)]
    windows = {
        "gpu": [row % gpus for row in range(count)],
        "start_ms": starts,
        "observed_ms": [0] * count,
        "power_w": list(range(count)),
    }
    return mapping(gpus=[{"uuid": "GPU-%d" % place} for place in range(gpus)], windows=windows)


def put(spool, batch):
    return spool.append(partial(entry_of, wire.parse(batch)))


def pump_to(hub, spool, **options):
    return Pump(spool, Sender(hub.url, "a-token", **options).send, flush_s=30)


def empty(pump):
    while pump.step() is not None:
        pass


def test_a_batch_is_sent_as_the_contract_says(hub, spool):
    put(spool, mapping())

    empty(pump_to(hub, spool))

    path, headers, body = hub.requests[0]
    assert path == "/api/v1/batches"
    assert headers["Authorization"] == "Bearer a-token"
    assert (headers["Content-Type"], headers["Content-Encoding"]) == ("application/json", "gzip")
    assert abs(int(headers["X-FleetWatch-Sent-Ms"]) - time.time() * 1000) < 60_000
    assert json.loads(gzip.decompress(body))["node"] == "gpu-07"
    assert spool.waiting == 0


TAKES_PACKED = {"Accept-Post": "application/json, " + packed.CONTENT_TYPE}


def forms(hub):
    return [headers["Content-Type"] for _, headers, _ in hub.requests]


def test_a_hub_that_says_it_takes_packed_batches_gets_them(hub, spool):
    hub.answers = [(200, TAKES_PACKED, ACCEPTED[2])] * 2
    put(spool, mapping())
    put(spool, mapping())

    empty(pump_to(hub, spool))

    assert forms(hub) == ["application/json", packed.CONTENT_TYPE]
    _, headers, body = hub.requests[1]
    assert headers["Content-Encoding"] == "deflate"
    assert packed.unpack(zlib.decompress(body))["sequence"] == 1


def test_an_earlier_hub_in_its_place_gets_json_and_nothing_is_set_aside(hub, spool, tmp_path):
    refusal = {"error": "Content-Type is ..., expected application/json", "field": "Content-Type"}
    hub.answers = [(200, TAKES_PACKED, ACCEPTED[2]), (422, {}, refusal)]
    put(spool, mapping())
    put(spool, mapping())

    empty(pump_to(hub, spool))

    assert forms(hub) == ["application/json", packed.CONTENT_TYPE, "application/json"]
    assert [batch["sequence"] for batch in hub.batches] == [1]
    assert not (tmp_path / "spool" / "set-aside").exists()


def test_a_batch_that_an_earlier_agent_left_in_the_spool_is_sent_as_it_is(hub, spool):
    hub.answers = [(200, TAKES_PACKED, ACCEPTED[2])] * 2
    put(spool, mapping())
    left = wire.compress(json.dumps(mapping()).encode())
    spool.append(lambda sequence: Entry(sequence, 1, left))

    empty(pump_to(hub, spool))

    assert hub.requests[1][2] == left
    assert forms(hub)[1] == "application/json"


def hub_ms(headers):
    return int(headers["X-FleetWatch-Hub-Ms"])


def test_a_batch_says_what_the_hubs_clock_shows_at_least(hub, spool):
    an_hour_ahead = time.time() + 3600
    hub.answers = [(200, {"Date": formatdate(an_hour_ahead, usegmt=True)}, ACCEPTED[2])]
    put(spool, mapping())
    put(spool, mapping())

    empty(pump_to(hub, spool))

    first, second = [headers for _, headers, _ in hub.requests]
    # the first too: the hub's clock was asked before
    assert -60_000 < hub_ms(first) - int(first["X-FleetWatch-Sent-Ms"]) <= 0
    assert int(an_hour_ahead) * 1000 <= hub_ms(second) <= int(an_hour_ahead) * 1000 + 60_000


def test_a_refusal_tells_the_hubs_clock_too(hub, spool):
    hub.answers = [(503, {"Date": "Sat, 14 Nov 2026 12:00:00 GMT"}, {"error": "come again"})]
    put(spool, mapping())

    empty(pump_to(hub, spool))

    assert 0 <= hub_ms(hub.requests[1][1]) - 1_794_657_600_000 < 60_000


def test_the_hub_says_when_it_wants_the_next_batch(hub, spool):
    hub.answers = [(200, {}, {"stored": 1, "next_flush_s": 120})]
    put(spool, mapping())
    pump = pump_to(hub, spool)

    pump.step()

    assert pump.flush_s == 120


@pytest.mark.parametrize(
    ("wish", "flush_s"), [(100_000, 300), (0, 1), (-5, 1), ("soon", 30), (None, 30), (True, 30)]
)
def test_what_the_hub_wishes_stays_within_reason(hub, spool, wish, flush_s):
    hub.answers = [(200, {}, {"stored": 1, "next_flush_s": wish})]
    put(spool, mapping())
    pump = pump_to(hub, spool)

    pump.step()

    assert pump.flush_s == flush_s


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 409, 429, 500, 502, 503])
def test_every_refusal_but_two_keeps_the_batch(hub, spool, status):
    hub.answers = [(status, {}, {"error": "no"})]
    put(spool, mapping())
    pump = pump_to(hub, spool)

    assert pump.step() > 0
    assert spool.waiting == 1

    assert pump.step() == 0.0
    assert spool.waiting == 0


def test_a_200_that_is_not_the_hubs_forgets_nothing(hub, spool):
    hub.answers = [(200, {"Content-Type": "text/html"}, b"<html>log in to the wifi</html>")]
    put(spool, mapping())

    assert pump_to(hub, spool).step() > 0
    assert spool.waiting == 1


def test_a_redirect_takes_the_token_nowhere(hub, spool):
    hub.answers = [(308, {"Location": hub.url + "/elsewhere"}, b"")]
    put(spool, mapping())
    pump = pump_to(hub, spool)

    assert pump.step() >= 60
    assert len(hub.requests) == 1
    assert "redirect" in pump.last.text


def test_a_hub_that_is_not_there_is_an_outage(spool):
    put(spool, mapping())
    pump = Pump(spool, Sender("http://127.0.0.1:1", "a-token").send, flush_s=30)

    assert 0.5 <= pump.step() <= 1.0
    assert pump.last.verdict is Verdict.RETRY
    assert spool.waiting == 1


def test_a_refused_token_is_said_once_clearly_and_tried_slowly(hub, spool, caplog):
    hub.answers = [(401, {}, {"error": "unknown or revoked token"})] * 3
    put(spool, mapping())
    pump = pump_to(hub, spool)

    with caplog.at_level(logging.WARNING):
        waits = [pump.step() for _ in range(3)]

    assert all(wait >= 60 for wait in waits)
    assert [record.message for record in caplog.records] == [
        "the hub refuses this agent's token (401: unknown or revoked token): give it a new one,"
        " made on the hub's settings page (batches waiting=1)"
    ]
    assert "a-token" not in caplog.text


def test_what_can_never_be_accepted_is_set_aside_and_the_rest_goes_on(hub, spool, tmp_path):
    hub.answers = [(422, {}, {"error": "windows.gpu holds nonsense", "field": "windows.gpu"})]
    put(spool, mapping())
    put(spool, mapping())
    pump = pump_to(hub, spool)

    empty(pump)

    assert [batch["sequence"] for batch in hub.batches] == [1]
    assert [path.name for path in (tmp_path / "spool" / "set-aside").iterdir()] == ["0-422.json.gz"]
    assert (spool.dropped_windows, pump.rejected) == (1, 1)


def test_a_batch_too_large_arrives_in_parts_that_hold_each_window_once_in_order(hub, spool):
    hub.max_windows = 2
    put(spool, rows(7))
    put(spool, mapping())

    empty(pump_to(hub, spool))

    sent = [start for batch in hub.batches[:-1] for start in batch["windows"]["start_ms"]]
    assert sent == [START + 10_000 * row for row in range(7)]
    assert len({batch["sequence"] for batch in hub.batches}) == len(hub.batches)
    assert hub.batches[-1]["sequence"] == 1
    assert spool.waiting == 0


def test_one_window_that_is_too_large_is_set_aside(hub, spool, tmp_path):
    hub.max_windows = 0
    put(spool, rows(2))

    empty(pump_to(hub, spool))

    assert (
        sorted(path.name.split("-")[1] for path in (tmp_path / "spool" / "set-aside").iterdir())
        == ["413.json.gz"] * 2
    )
    assert spool.dropped_windows == 2


def entry(batch, sequence=5):
    return Entry(
        sequence,
        len(batch["windows"]["gpu"]),
        wire.compress(wire.encode(wire.parse({**batch, "sequence": sequence}))),
    )


def parts(found):
    return [batch_of(part.payload) for part in found]


def test_a_split_by_time_shares_out_windows_host_and_events():
    batch = rows(4)
    batch["host"] = {"start_ms": [START, START + 30_000], "cpu_ratio": [0.1, 0.2]}
    batch["events"] = [
        {"at_ms": START + 19_999, "kind": "xid"},
        {"at_ms": START + 20_000, "kind": "xid"},
    ]

    first, second = parts(split(entry(batch)))

    assert (first.windows["power_w"], second.windows["power_w"]) == ([0, 1], [2, 3])
    assert (first.host["cpu_ratio"], second.host["cpu_ratio"]) == ([0.1], [0.2])
    assert [event["at_ms"] - START for event in first.events + second.events] == [19_999, 20_000]


def test_a_split_of_one_moment_is_by_gpu():
    first, second = parts(split(entry(rows(2, starts=[START, START], gpus=2))))

    assert (first.windows["gpu"], second.windows["gpu"]) == ([0], [1])
    assert [gpu["uuid"] for gpu in second.gpus] == ["GPU-0", "GPU-1"]


def test_a_split_with_most_windows_at_the_first_start_still_has_two_sides():
    first, second = parts(split(entry(rows(3, starts=[START, START, START + 10_000]))))

    assert (first.windows["power_w"], second.windows["power_w"]) == ([0, 1], [2])


def test_the_names_of_parts_are_nobody_elses_and_always_the_same():
    whole = entry(rows(4))
    halves = split(whole)
    quarters = [*split(halves[0]), *split(halves[1])]

    names = [part.sequence for part in (*halves, *quarters)]

    assert names == [5 | place << 40 for place in (2, 3, 4, 5, 6, 7)]
    assert split(whole) == halves
    assert [batch.sequence for batch in parts(halves)] == names[:2]


@pytest.mark.parametrize(
    ("failures", "jitter", "seconds"),
    [
        (0, 0.0, 0.5),
        (0, 1.0, 1.0),
        (3, 1.0, 8.0),
        (6, 1.0, 60.0),
        (500, 1.0, 60.0),
        (500, 0.0, 30.0),
    ],
)
def test_waits_double_to_a_minute_and_are_spread(failures, jitter, seconds):
    assert wait_s(Outcome(Verdict.RETRY), failures=failures, jitter=jitter) == seconds


def test_the_hubs_own_wait_is_the_least():
    asked = Outcome(Verdict.RETRY, wait_s=90.0)

    assert wait_s(asked, failures=0, jitter=0.0) == 90.0
    assert wait_s(asked, failures=0, jitter=1.0) == pytest.approx(99.0)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("999999", 3600.0),
        (formatdate(1030, usegmt=True), 30.0),
        (formatdate(900, usegmt=True), 0.0),
        ("tomorrow", None),
        ("-3", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value, seconds):
    assert retry_after_s(value, now=1000.0) == seconds


def test_retry_after_is_obeyed(hub, spool):
    hub.answers = [(429, {"Retry-After": "40"}, {"error": "slow down"})]
    put(spool, mapping())

    assert 40 <= pump_to(hub, spool).step() <= 44


def test_a_pump_that_is_told_to_stop_stops_though_nothing_waits(hub, spool):
    pump, stop = pump_to(hub, spool), threading.Event()
    thread = threading.Thread(target=pump.run, args=(stop,))
    thread.start()
    put(spool, mapping())
    pump.wake()

    stop.set()
    pump.wake()
    thread.join(timeout=10)

    assert not thread.is_alive()


def test_a_hub_that_speaks_no_tls_is_refused_in_clear_words(hub, spool):
    put(spool, mapping())
    pump = Pump(spool, Sender(hub.url.replace("http:", "https:"), "a-token").send, flush_s=30)

    assert pump.step() > 0
    assert hub.requests == []
    assert "does not speak TLS as it should" in pump.last.text


def test_the_first_accepted_batch_is_said_once(hub, spool, caplog):
    put(spool, mapping())
    put(spool, mapping())

    with caplog.at_level(logging.INFO):
        empty(pump_to(hub, spool))

    assert [record.message for record in caplog.records] == ["the hub accepts batches"]


def test_a_wrong_address_is_asked_about(hub, spool):
    hub.answers = [(404, {}, {})]
    put(spool, mapping())
    pump = pump_to(hub, spool)

    pump.step()

    assert pump.last.text == "the hub answers 404: is this the address of a FleetWatch hub?"


def failing_at(hub, sequence, status=500):
    """The hub fails at the batch with that sequence and takes the others."""
    answer = hub.answer

    def told(path, headers, body):
        if json.loads(gzip.decompress(body))["sequence"] == sequence:
            return status, {}, {"error": "a fault of ours"}
        return answer(path, headers, body)

    hub.answer = told


def sequences(hub):
    return [batch["sequence"] for batch in hub.batches]


def test_a_batch_at_which_the_hub_fails_lets_the_others_pass_and_is_kept(hub, spool):
    failing_at(hub, 0)
    for _ in range(3):
        put(spool, mapping())
    pump = pump_to(hub, spool)

    delays = [pump.step() for _ in range(sender.FAILURES_OF_ONE)]
    empty(pump)

    assert all(delay > 0 for delay in delays)
    assert sequences(hub) == [1, 2]
    assert (spool.waiting, spool.passed_over, spool.dropped_windows) == (1, 1, 0)


def test_a_batch_that_was_passed_over_is_tried_again_after_an_hour(hub, spool, monkeypatch):
    monkeypatch.setattr(sender, "RETURN_EVERY_S", 0.0)
    hub.answers = [(500, {}, {"error": "a fault of ours"})] * sender.FAILURES_OF_ONE
    for _ in range(3):
        put(spool, mapping())

    empty(pump_to(hub, spool))

    assert sorted(sequences(hub)) == [0, 1, 2]
    assert spool.waiting == 0


def test_a_hub_that_fails_at_everything_is_waited_for_in_order(hub, spool):
    hub.answers = [(500, {}, {"error": "a fault of ours"})] * (sender.FAILURES_OF_ONE + 1)
    for _ in range(3):
        put(spool, mapping())
    pump = pump_to(hub, spool)

    for _ in range(sender.FAILURES_OF_ONE + 1):
        assert pump.step() > 0
    empty(pump)

    assert sequences(hub) == [0, 1, 2]
    assert spool.passed_over == 0


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_hub_that_is_away_says_nothing_of_the_batch(hub, spool, status):
    hub.answers = [(status, {}, {"error": "come again"})] * 20
    put(spool, mapping())
    pump = pump_to(hub, spool)

    for _ in range(20):
        pump.step()

    assert spool.passed_over == 0


def test_windows_that_the_hub_does_not_count_are_said(hub, spool, caplog):
    hub.answers = [
        (
            200,
            {},
            {
                "stored": 0,
                "refused": [
                    {"gpu": "GPU-1", "why": "node n1 reports this GPU too"},
                    {"gpu": "GPU-2"},
                ],
            },
        )
    ]
    put(spool, mapping())
    pump = pump_to(hub, spool)

    with caplog.at_level(logging.WARNING):
        pump.step()

    said = "the hub does not count the windows of GPU-1: node n1 reports this GPU too (and 1 more)"
    assert pump.last_refusal == said
    assert said in caplog.text
    assert spool.waiting == 0

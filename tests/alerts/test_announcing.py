"""Who is told what and when, from the ledger's runs to the rows that wait for delivery."""

import threading

import pytest
from django.db import connection

from fleetwatch.alerts.incidents.incident_actions import Action, act
from fleetwatch.alerts.incidents.incident_history import joined, sends, waits_for
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.messaging.earlier_notices import NOTIFIED_BEFORE
from fleetwatch.alerts.messaging.unsubscribing import read_token
from fleetwatch.alerts.models import Incident, IncidentGroup, Notification
from fleetwatch.alerts.selectors import timeline
from fleetwatch.alerts.services import evaluate
from fleetwatch.jobs.models import Job
from fleetwatch.lib.fences import Fences, PartlyDoneError
from fleetwatch.lib.sql import execute
from fleetwatch.notify.models import Delivery
from tests.alerts import people
from tests.alerts.factories import a_rule, at, longer, ran


def sent(after: int = 0) -> list[tuple[str, str, str]]:
    """By order of each delivery the channel, the address and what of its thread it is."""
    rows = Delivery.objects.filter(pk__gt=after).select_related("channel").order_by("pk")
    return [(row.channel.name, row.address, row.key.split("/", 2)[2]) for row in rows]


def run(minutes: float) -> list[tuple[str, str, str]]:
    """What an evaluation of that minute sends."""
    last = Delivery.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    announcing.run(at(minutes))
    return sent(last)


@pytest.mark.django_db
def test_a_job_users_person_hears_of_it_in_slack_and_the_incident_says_why():
    a_rule()
    people.app()
    people.mail()
    people.route("operators", people.webhook())
    ana = people.person()
    people.idle_job()

    assert run(31) == [("app", "U0ANA", "opened")]
    notification = Notification.objects.get()
    assert (notification.person, notification.why) == (
        ana,
        "because they are job user ana on della",
    )
    told = timeline(Incident.objects.get())[-1]
    assert (told.kind, told.person, told.text) == (
        "told_opened",
        ana,
        "Ana Diaz by Slack app: because they are job user ana on della",
    )
    link = Delivery.objects.get().message["unsubscribe_url"]
    assert read_token(link.rpartition("/")[2]) == (ana, "alerts")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("way", "reached"),
    [
        ("any", [("app", "U0ANA", "opened")]),
        ("slack", [("app", "U0ANA", "opened")]),
        ("email", [("mail", "ana@people.example", "opened")]),
        ("none", [("hook", "", "opened")]),
    ],
)
def test_a_person_is_told_the_way_he_prefers(way, reached):
    a_rule()
    people.app()
    people.mail()
    people.route("operators", people.webhook())
    people.prefers(people.person(), way=way)
    people.idle_job()

    assert run(31) == reached


@pytest.mark.django_db
def test_a_name_that_is_claimed_and_not_confirmed_reaches_nobody():
    a_rule()
    people.app()
    people.route("unowned", people.webhook())
    ana = people.person()
    ana.identities.update(confirmed_at=None)
    people.idle_job()

    assert run(31) == [("hook", "", "opened")]


@pytest.mark.django_db
def test_who_may_not_log_in_any_more_is_not_told():
    a_rule()
    people.app()
    people.route("unowned", people.webhook())
    ana = people.person()
    people.idle_job()
    announcing.evaluate(at(31))
    ana.is_active = False
    ana.save()

    assert run(31) == [("hook", "", "opened")]


@pytest.mark.django_db
def test_nobody_acknowledges_it_the_owner_again_the_team_the_operators():
    a_rule(escalate_minutes=60, remind_minutes=0)
    people.app()
    ana = people.person()
    people.route("team", people.webhook("nlp"), of=people.team("nlp", ana))
    people.route("operators", people.webhook("ops"))
    run_ = people.idle_job()
    steps = []
    for minute in (31, 90.9, 91, 151, 211, 271, 400):
        longer(run_, minute)
        steps.append(run(minute))

    assert steps == [
        [("app", "U0ANA", "opened")],
        [],
        [("app", "U0ANA", "step/1")],
        [("nlp", "", "opened")],
        [("ops", "", "opened")],
        [],
        [],
    ]
    assert Delivery.objects.filter(key__endswith="step/1").get().message["is_reply"] is True
    asked = Delivery.objects.get(channel__name="ops").message
    assert asked["title"].startswith("escalated · idle · ")
    assert asked["summary"].startswith(
        "Escalated: nobody acknowledged it since 09:31 UTC (asked: Ana Diaz, nlp). "
    )
    first = Delivery.objects.get(address="U0ANA", key__endswith="/opened").message
    assert first["title"].startswith("idle · ")
    whats = [each.what for each in sends(Incident.objects.get())]
    assert whats == ["escalation", "escalation", "reminder", "opened"]
    kinds = [event.kind for event in timeline(Incident.objects.get())]
    assert kinds == ["fired", "told_opened", "told_reminder", "told_step", "told_step"]


@pytest.mark.django_db
def test_acknowledged_stops_the_ladder_and_edits_the_message():
    a_rule(escalate_minutes=60, remind_minutes=60)
    people.app()
    ana = people.person()
    people.route("operators", people.webhook("ops"))
    run_ = people.idle_job()
    run(31)
    Incident.objects.update(state="acknowledged", acknowledged_at=at(40), acknowledged_by=ana)

    longer(run_, 500)
    assert run(40) == [("app", "U0ANA", "changed/2")]
    assert Delivery.objects.last().message["text"].startswith("Acknowledged by Ana Diaz.")
    assert (run(91), run(500)) == ([], [])


@pytest.mark.django_db
def test_a_reminder_is_a_reply_to_everybody_who_was_told():
    a_rule(escalate_minutes=0, remind_minutes=120)
    people.webhook()
    run_ = people.idle_job()
    run(31)
    longer(run_, 300)

    assert (run(150.9), run(151), run(152)) == ([], [("hook", "", "reminder/2")], [])
    reminder = Delivery.objects.last().message
    assert (reminder["is_reply"], reminder["title"].startswith("still idle ·")) == (True, True)


@pytest.mark.django_db
def test_everybody_who_was_told_hears_that_it_is_over_once():
    a_rule(escalate_minutes=60)
    people.app()
    people.person()
    people.route("operators", people.webhook("ops"))
    run_ = people.idle_job()
    run(31)
    longer(run_, 160)
    run(91)
    run(160)
    ran(run_.gpu, "active", 160, 165, job=run_.job)

    assert run(165) == [("app", "U0ANA", "resolved"), ("ops", "", "resolved")]
    over, *before = sends(Incident.objects.get())
    # an end reaches who was notified before, whoever owns it now
    assert (over.what, over.why) == ("resolved", NOTIFIED_BEFORE)
    assert NOTIFIED_BEFORE not in {each.why for each in before if each.what != "resolved"}
    assert (run(165), run(166)) == ([], [])


@pytest.mark.django_db
def test_nobody_is_told_more_of_what_has_no_data():
    a_rule(escalate_minutes=60, remind_minutes=60)
    people.app()
    people.person()
    people.route("operators", people.webhook("ops"))
    people.idle_job()
    run(31)

    # it is said where it can be, and goes no further
    assert (run(100), run(300)) == ([("app", "U0ANA", "changed/2")], [])
    assert "Not known since" in Delivery.objects.last().message["text"]


@pytest.mark.django_db
def test_six_idle_pods_of_one_owner_on_a_node_make_one_message():
    a_rule()
    people.app()
    ana = people.person()
    people.route("operators", people.webhook("ops"))
    people.is_named(ana, "kubernetes", "ana-ns")
    for index in range(6):
        key = f"kubernetes/prod/ana-ns/pod-{index}"
        people.idle_job(key=key, user="ana-ns", index=index, scheduler="kubernetes")

    assert run(31) == [("app", "U0ANA", "opened")]
    message = Delivery.objects.get().message
    assert message["title"] == "idle · 6 jobs of ana-ns (nlp) on node-014"
    assert len(message["rows"]) == 7


@pytest.mark.django_db
def test_of_several_in_a_message_the_end_of_each_is_told_once_all_are_over_in_one_that_lists_them():
    a_rule(escalate_minutes=0, remind_minutes=0)
    people.route("operators", people.webhook("ops"))
    first, second = (people.idle_job(60, key=f"slurm/della/{n}", index=n) for n in (1, 2))
    assert run(60) == [("ops", "", "opened")]
    longer(second, 80)
    ran(first.gpu, "active", 60, 80, job=first.job)

    assert run(80) == []
    over, going_on = Incident.objects.order_by("pk")
    assert (waits_for(over), waits_for(going_on)) == ([going_on.pk], [])

    ran(second.gpu, "active", 80, 100, job=second.job)
    assert run(100) == [("ops", "", "resolved")]
    message = Delivery.objects.last().message
    assert [row[0] for row in message["rows"]] == ["Job", "slurm/della/1", "slurm/della/2"]
    waited = "Ends are told once all of a message are over: slurm/della/1 was over at 10:20 UTC."
    assert message["text"].startswith(waited)
    ends = [
        [each.kind for each in timeline(row)].count("told_resolved") for row in (over, going_on)
    ]
    assert (ends, waits_for(Incident.objects.get(pk=over.pk))) == ([1, 1], [])
    waited = f"; it waited until #{going_on.pk} was over too: the ends of a group are one message"
    why = [timeline(row)[-1].text for row in (over, going_on)]
    assert why == [f"ops (Slack): {NOTIFIED_BEFORE}{waited}", f"ops (Slack): {NOTIFIED_BEFORE}"]


@pytest.mark.django_db
def test_what_joins_a_group_and_is_over_before_its_next_notice_says_whose_stood():
    a_rule(escalate_minutes=0, remind_minutes=0)
    people.route("operators", people.webhook("ops"))
    first = people.idle_job(31)
    run(31)
    longer(first, 60)
    second = people.idle_job(40, key="slurm/della/2", index=1)
    assert run(40) == []
    one, other = Incident.objects.order_by("pk")
    raised = joined(other)
    assert (joined(one), sends(other)) == (None, [])
    assert raised is not None
    assert (raised.first, raised.since, raised.next_at) == (one.pk, at(31), at(91))
    for each, begin in ((second, 40), (first, 60)):
        ran(each.gpu, "active", begin, begin + 20, job=each.job)
        run(begin + 20)

    assert run(80) == []
    one, other = Incident.objects.order_by("pk")
    before = joined(other)
    assert before is not None
    assert before.is_over_before
    # the timeline and the table have one reason, each incident its own
    for row, why in ((one, NOTIFIED_BEFORE), (other, f"was sent the notice of #{one.pk}")):
        end, *_ = sends(row)
        assert end.why.startswith(why)
        assert timeline(row)[-1].text.startswith(f"ops (Slack): {end.why}")


@pytest.mark.django_db
def test_another_job_that_joins_edits_the_message_and_is_mailed_once_an_hour_at_most():
    a_rule(escalate_minutes=0, remind_minutes=0)
    people.app()
    people.mail()
    people.person()
    run_ = people.idle_job()
    first = run(31)
    longer(run_, 200)
    another = people.idle_job(40, key="slurm/della/2", index=1)
    second = run(40)
    third_job = people.idle_job(50, key="slurm/della/3", index=2)
    third = run(50)
    for each in (another, third_job):
        longer(each, 200)

    assert first == [("app", "U0ANA", "opened"), ("app", "", "opened"), ("mail", "", "opened")]
    assert second == [("app", "U0ANA", "changed/2"), ("app", "", "changed/2")]
    assert third == [("app", "U0ANA", "changed/3"), ("app", "", "changed/3")]
    assert (run(90.9), run(91), run(200)) == ([], [("mail", "", "changed/4")], [])
    # its history has each place that was told of it, when it was
    joined = Incident.objects.get(subject="slurm/della/2")
    heard = [each.at for each in timeline(joined) if each.kind == "told_opened"]
    assert heard == [at(40), at(40), at(91)]
    # to those that were named there before it says who joined: once at each place
    second_id, third_id = (Incident.objects.get(subject=f"slurm/della/{n}").pk for n in (2, 3))
    changes = [
        (each.at, each.text.partition(": ")[2])
        for each in timeline(Incident.objects.get(subject="slurm/della/1"))
        if each.kind == "told_changed"
    ]
    assert changes == [
        *[(at(40), f"names #{second_id} since, which joined its group")] * 2,
        *[(at(50), f"names #{third_id} since, which joined its group")] * 2,
        (at(91), f"names #{second_id}, #{third_id} since, which joined its group"),
    ]


@pytest.mark.django_db
def test_jobs_of_others_and_on_other_nodes_are_other_messages():
    a_rule()
    people.app()
    people.person()
    people.person("bo", name="Bo Berg")
    people.route("operators", people.webhook("ops"))
    people.idle_job()
    people.idle_job(key="slurm/della/2", user="bo", index=1)

    assert run(31) == [("app", "U0ANA", "opened"), ("app", "U0BO", "opened")]
    assert IncidentGroup.objects.count() == 2


@pytest.mark.django_db
def test_what_was_given_to_somebody_is_told_him_and_why():
    a_rule()
    people.app()
    people.person()
    bo = people.person("bo", name="Bo Berg")
    people.route("operators", people.webhook("ops"))
    people.idle_job()
    run(31)
    Incident.objects.update(assignee=bo)

    assert run(32) == [("app", "U0BO", "opened"), ("app", "U0ANA", "changed/2")]
    assert Notification.objects.get(person=bo).why == "because it was given to them"
    assert run(33) == []


@pytest.mark.django_db
def test_what_was_snoozed_offers_to_end_that_and_is_told_again_when_it_is_taken_back():
    a_rule(remind_minutes=0)
    people.app()
    people.route("operators", people.webhook("ops"))
    ana = people.person()
    run_ = people.idle_job()
    run(31)
    incident = Incident.objects.get()

    act(incident.pk, Action("snooze"), by=ana, now=at(32))
    longer(run_, 33)
    assert run(33) == [("app", "U0ANA", "changed/2")]
    assert "unsnooze" in newest_buttons()
    act(incident.pk, Action("unsnooze"), by=ana, now=at(34))
    longer(run_, 35)

    assert run(35) == [("app", "U0ANA", "back/3")]
    assert "snooze" in newest_buttons()
    assert Incident.objects.get().muted == ""


def newest_buttons() -> list[str]:
    return [each["action"] for each in Delivery.objects.latest("pk").message["buttons"]]


@pytest.mark.django_db
def test_what_a_silence_mutes_too_stays_muted_when_its_snooze_is_taken_back():
    a_rule()
    people.app()
    ana = people.person()
    run_ = people.idle_job()
    run(31)
    incident = Incident.objects.get()
    act(incident.pk, Action("snooze"), by=ana, now=at(32))
    act(incident.pk, Action("not_waste", reason="a demo"), by=ana, now=at(32))

    act(incident.pk, Action("unsnooze"), by=ana, now=at(34))
    longer(run_, 35)
    run(35)

    assert Incident.objects.get().muted.startswith("accepted until")


@pytest.mark.django_db
def test_who_holds_the_job_now_is_told_next_and_whom_it_was_told_stays():
    a_rule(escalate_minutes=60, remind_minutes=0)
    people.app()
    people.route("operators", people.webhook("ops"))
    ana = people.person()
    bo = people.person("bo", name="Bo Berg")
    run_ = people.idle_job()
    run(31)

    Job.objects.update(user="bo", team=people.team("vision"))
    longer(run_, 36)
    run(36)
    longer(run_, 91)

    incident = Incident.objects.get()
    assert (incident.person, incident.team.slug) == (bo, "vision")
    event = incident.events.get(kind="owner")
    assert (event.text, event.person) == ("it is {person}'s now", bo)
    assert run(91) == [("app", "U0BO", "opened")]
    assert Notification.objects.filter(person=ana).count() == 1


@pytest.mark.django_db
def test_an_owner_who_is_known_only_later_is_told_with_the_next_step():
    a_rule(escalate_minutes=60, remind_minutes=0)
    people.app()
    people.route("unowned", people.webhook("unowned"))
    people.route("operators", people.webhook("ops"))
    longer(people.idle_job(), 400)
    assert run(31) == [("unowned", "", "opened")]

    people.person()

    assert run(90) == []
    assert run(91) == [("app", "U0ANA", "opened"), ("ops", "", "opened")]
    assert run(151) == []


@pytest.mark.django_db
def test_what_was_resolved_by_hand_stays_whose_it_was():
    a_rule()
    people.app()
    ana = people.person()
    people.person("bo", name="Bo Berg")
    run_ = people.idle_job()
    run(31)
    act(Incident.objects.get().pk, Action("resolve"), by=ana, now=at(32))

    Job.objects.update(user="bo")
    longer(run_, 33)
    run(33)

    assert Incident.objects.get().person == ana


@pytest.mark.django_db
def test_a_hostile_name_stays_one_line_and_in_bounds():
    a_rule()
    people.route("unowned", people.webhook())
    people.idle_job(user="ana\n<!channel> " + "x" * 110, cluster="y" * 128)

    run(31)

    why = Notification.objects.get().why
    assert len(why) <= 200
    assert "\n" not in why


@pytest.mark.django_db
def test_a_rule_that_does_not_tell_owners_tells_the_team():
    a_rule(tells_owner=False)
    people.app()
    people.person()
    people.route("team", people.webhook("nlp"), of=people.team())
    people.idle_job()

    assert run(31) == [("nlp", "", "opened")]


@pytest.mark.django_db(transaction=True)
def test_four_evaluators_at_once_send_one_message():
    a_rule()
    people.app()
    people.person()
    people.route("operators", people.webhook("ops"))
    people.idle_job()
    begin = threading.Barrier(4)

    def work() -> None:
        begin.wait(30)
        for minute in (31, 32, 33):
            announcing.run(at(minute))
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert sent() == [("app", "U0ANA", "opened")]
    assert (Job.objects.count(), Notification.objects.count()) == (1, 1)


def two_owners() -> tuple[Incident, Incident]:
    """Ana's and Bo's incident, of a group each, of which nobody was told yet."""
    a_rule()
    people.app()
    people.person()
    people.person("bo", name="Bo Lund")
    people.route("operators", people.webhook())
    people.idle_job()
    people.idle_job(key="slurm/della/2", user="bo", index=1)
    evaluate(at(31))
    return Incident.objects.get(person__username="ana"), Incident.objects.get(person__username="bo")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "facts",
    [
        {"no": "breach"},  # it can't be put into a group
        {"labels": {"user": 7}},  # nor can it be told whether something mutes it
    ],
)
def test_an_incident_that_can_not_be_told_keeps_no_other_from_being_so(facts):
    anas, bos = two_owners()
    Incident.objects.filter(pk=anas.pk).update(facts=facts)

    with pytest.raises(PartlyDoneError, match=f"^incident {anas.pk}: "):
        announcing.announce(at(31))

    assert sent() == [("app", "U0BO", "opened")]
    assert IncidentGroup.objects.get().incidents.get() == bos


@pytest.mark.django_db
def test_a_group_that_can_not_be_told_is_told_once_it_can_and_keeps_no_other_from_being_so():
    anas, _ = two_owners()
    announcing._group_new(at(31), Fences())
    facts = anas.facts
    Incident.objects.filter(pk=anas.pk).update(facts={"labels": {}})

    with pytest.raises(PartlyDoneError, match=r"^group \d+ of Job idle: "):
        announcing.announce(at(31))

    assert sent() == [("app", "U0BO", "opened")]
    assert IncidentGroup.objects.filter(stepped_at=None).count() == 1

    Incident.objects.filter(pk=anas.pk).update(facts=facts)
    announcing.announce(at(32))
    assert sent() == [("app", "U0BO", "opened"), ("app", "U0ANA", "opened")]


@pytest.mark.django_db
def test_a_chart_that_can_not_be_drawn_keeps_no_message_from_being_sent(monkeypatch):
    def broken(*_, **__):
        execute("SELECT 1 / 0")

    monkeypatch.setattr("fleetwatch.telemetry.selectors.series", broken)
    a_rule()
    people.app()
    people.person()
    people.route("operators", people.webhook())
    people.idle_job()

    assert run(31) == [("app", "U0ANA", "opened")]
    assert Delivery.objects.get().message["spark"] == []

from dataclasses import asdict, replace
from zoneinfo import ZoneInfo

import msgspec
import pytest

from fleetwatch.alerts.conditions import job_idle
from fleetwatch.alerts.conditions.job_idle import Facts, IdleGPU
from fleetwatch.alerts.measuring.cause_words import NO_CAUSE
from fleetwatch.alerts.measuring.gpu_places import places
from fleetwatch.alerts.messaging.messages import Case, Setting, of_group
from fleetwatch.alerts.messaging.page_steps import without_asking
from fleetwatch.notify.plain_text import plain_text
from fleetwatch.notify.transports.email import html
from fleetwatch.notify.transports.slack_blocks import payload, url_buttons
from tests.alerts.factories import at, ms
from tests.notify.fakes import is_within_limits

UTC = ZoneInfo("UTC")


def an_idle_gpu(index: int | None, **fields) -> IdleGPU:
    usual = {
        "gpu_id": index or 0,
        "uuid": f"GPU-{index}",
        "node": "node-014",
        "index": index,
        "model": "H100 SXM",
        "mig_profile": "",
    }
    money = {"cost_usd": "10.80", "usd_per_hour": "3.25", "has_example_rate": False}
    return IdleGPU(
        **(
            usual
            | {"since_ms": ms(10), "until_ms": ms(210), "memory_bytes": 30.5 * 2**30}
            | money
            | fields
        )
    )


def facts(**fields) -> Facts:
    job = {
        "job_key": "slurm/della/48213",
        "job_name": "sweep-7",
        "user": "ana",
        "team": "nlp",
        "cluster": "della",
        "scheduler": "slurm",
        "external_id": "48213",
    }
    return Facts(
        **(
            job
            | {
                "job_gpus": 8,
                "minutes": 30.0,
                "labels": {},
                "gpus": (an_idle_gpu(3), an_idle_gpu(4)),
            }
            | fields
        )
    )


def opened(known: Facts, *, note: str = "", resolution: str = "", **changes):
    setting = {"rule_name": "Job idle", "severity": "warning", "zone": UTC, "now": at(211)}
    case = Case(7, job_idle.breach(known), note, resolution)
    return of_group([case], Setting(**(setting | {"base": "http://fleet"} | changes)))


def fix(known: Facts) -> str:
    return opened(known).text.splitlines()[0]


@pytest.mark.parametrize(
    ("held", "kind", "memory_bytes", "words"),
    [
        (2, "batch", 400e6, "A job that waits for data, a lock or another job rests like one"),
        (2, "batch", None, "A job that waits for data, a lock or another job rests like one"),
        (2, "batch", 300 * 1024**2, ""),
        (2, "service", 400e6, "A service that stands by for another one"),
        (8, "batch", 0.0, "A pipeline whose later stages did not start yet"),
    ],
)
def test_what_looks_the_same_is_told_beside_the_fix(held, kind, memory_bytes, words):
    gpus = (an_idle_gpu(3, memory_bytes=memory_bytes), an_idle_gpu(4, memory_bytes=memory_bytes))

    told = opened(facts(job_gpus=held, kind=kind, gpus=gpus)).text.splitlines()[1:]

    assert len(told) == (words != "")
    assert "".join(told).startswith(words)


def test_of_a_session_its_owner_is_asked_before_it_is_ended():
    *_, order, ask, end, alike = opened(facts(job_gpus=2, kind="interactive")).text.splitlines()

    assert order == "Fix, in this order:"
    assert ask == "1. Ask ana (nlp) whether job slurm/della/48213 “sweep-7” is still needed."
    assert end.startswith("2. scancel 48213, or give the GPUs back.")
    assert alike.startswith("A person who thinks between two cells looks like one who left: the")
    assert alike.endswith('curl -s "$JUPYTER_URL/api/kernels?token=$JUPYTER_TOKEN"')


def test_its_owner_is_not_told_to_ask_himself():
    breach = job_idle.breach(facts(job_gpus=2, kind="interactive"))

    assert without_asking(breach).actions == breach.actions[1:]


def test_a_job_that_uses_some_of_its_gpus_says_what_asks_for_fewer_and_how_to_look():
    paragraphs = opened(facts(job_gpus=8)).paragraphs

    assert [each.code for each in paragraphs] == [
        "#SBATCH --gres=gpu:6",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv",
    ]
    assert paragraphs[1].text.endswith("Which process is on which GPU?")


def test_what_was_noted_long_after_it_was_over_says_when_and_what_its_rule_waits_for():
    case = Case(7, job_idle.breach(facts()), "", "the allocation ended", resolved_at=at(240))
    setting = Setting("Job idle", "warning", UTC, at(241), "http://fleet")
    waits = replace(case, clear_minutes=15)

    assert dict(of_group([case], setting).fields)["Resolved"] == "13:00 UTC"
    assert dict(of_group([waits], setting).fields)["Resolved"] == (
        "13:00 UTC; its rule resolves what was over for 15 minutes"
    )
    assert "Resolved" not in dict(of_group([replace(case, resolved_at=at(211))], setting).fields)


def test_a_length_is_that_of_the_minutes_beside_it():
    gpu = an_idle_gpu(3, since_ms=ms(10.5), until_ms=ms(64.2))

    fields = dict(opened(facts(job_gpus=1, gpus=(gpu,)), resolution="over").fields)

    assert fields["Idle for"] == "54 m, 09:10 UTC to 10:04 UTC"
    assert "idle for 54 m" in opened(facts(job_gpus=1, gpus=(gpu,)), resolution="over").title


def test_what_is_told_to_the_next_ones_says_so_and_who_was_asked():
    asked = "nobody acknowledged it since 09:00 UTC (asked: Team nlp)"

    message = opened(facts(), escalated=asked)

    assert message.title.startswith("escalated · idle · node-014")
    assert message.summary.startswith(f"Escalated: {asked}. 2 of 8 GPUs of job")


def test_a_mail_links_its_job_its_finding_and_where_it_is_set_who_hears():
    breach = replace(job_idle.breach(facts()), lines=(("Likely", "Idle: it rests."),), finding_id=5)
    setting = Setting("Job idle", "warning", UTC, at(211), "http://fleet")

    page = html(of_group([Case(7, breach, "", "")], setting))

    assert 'href="http://fleet/jobs/slurm/della/48213"' in page
    assert 'href="http://fleet/findings/5"' in page
    assert 'href="http://fleet/alerts/routes"' in page


def test_a_gpu_is_called_by_its_place_before_its_uuid():
    breach = replace(
        job_idle.breach(facts()), kind="gpu", subject="GPU-1", name="gpu-01 GPU 3", word="faulty"
    )
    setting = Setting("GPU fault", "critical", UTC, at(211), "http://fleet")

    fields = dict(of_group([Case(7, breach, "", "")], setting).fields)

    assert fields["GPU"] == "gpu-01 GPU 3 (GPU-1)"


def test_several_say_that_dollars_rest_on_a_list_price_as_one_does():
    several = cases("", "")
    listed = [
        replace(each, breach=replace(each.breach, has_example_rates=True)) for each in several
    ]

    assert "Dollars rest on an example list price" in in_words(listed).text
    assert "Dollars rest" not in in_words(several).text


def test_several_of_which_no_cause_is_known_say_where_to_look():
    unknown = [
        replace(each, breach=replace(each.breach, actions=(NO_CAUSE,))) for each in cases("", "")
    ]

    look = "Diagnosis names no cause yet: the jobs' pages show what their GPUs do."
    assert look in in_words(unknown).text
    assert look not in in_words(cases("", "")).text


def cases(*ended_or_not: str, **changes) -> list[Case]:
    """Of two jobs on one node, each with its resolution and whether it is acknowledged."""
    return [
        Case(
            pk,
            job_idle.breach(
                facts(
                    labels={"node": ("gpu-01",), "job": (f"j/{pk}",), "team": ("nlp", "cv")},
                    gpus=(an_idle_gpu(pk, since_ms=ms(10 * pk)),),
                )
            ),
            "",
            resolution,
            **changes,
        )
        for pk, resolution in enumerate(ended_or_not, start=3)
    ]


def in_words(several: list[Case]):
    setting = {"rule_name": "Job idle", "severity": "warning", "zone": UTC, "now": at(211)}
    return of_group(several, Setting(**setting, base="http://fleet"))


def test_programs_route_a_group_by_the_labels_that_all_of_it_shares():
    message = in_words(cases("", ""))

    assert dict(message.labels) == {"rule": "Job idle", "severity": "warning", "node": "gpu-01"}
    assert message.since_ms == ms(30)


def test_a_job_with_labels_beyond_number_has_forty():
    many = {f"label.{number:03}": ("x",) for number in range(500)}

    assert len(opened(facts(labels=many)).labels) == 40


@pytest.mark.parametrize(
    ("ended", "is_acknowledged", "status"),
    [
        (("", ""), False, "firing"),
        (("", ""), True, "acknowledged"),
        (("", "it works again"), True, "acknowledged"),
        (("", "it works again"), False, "firing"),
        (("it works again", "it works again"), False, "resolved"),
    ],
)
def test_a_group_is_over_once_all_of_it_is(ended, is_acknowledged, status):
    assert in_words(cases(*ended, is_acknowledged=is_acknowledged)).status == status


def test_a_group_of_which_one_is_not_acknowledged_fires():
    [acknowledged] = cases("", is_acknowledged=True)

    assert in_words([acknowledged, *cases("")]).status == "firing"


@pytest.mark.parametrize(
    ("is_acknowledged", "offers"),
    [((False,), True), ((True,), False), ((True, False), True), ((True, True), False)],
)
def test_what_is_acknowledged_all_of_it_offers_that_no_more(is_acknowledged, offers):
    several = [each for is_done in is_acknowledged for each in cases("", is_acknowledged=is_done)]

    actions = [button.action for button in in_words(several).buttons]

    assert ("ack" in actions) is offers
    assert actions[-4:] == ["snooze", "not_waste", "fixed", "open"]


def test_an_opened_incident_says_who_where_since_when_and_what_it_costs():
    message = opened(facts())

    assert message.title == "idle · node-014 GPU 3, 4 (H100 SXM) · since 09:10 UTC (3 h 20 m)"
    assert (
        message.summary
        == "2 of 8 GPUs of job slurm/della/48213 “sweep-7” have been idle for 3 h 20 m. Owner:"
        " ana (nlp)."
    )
    assert message.fields == (
        ("Owner", "ana (nlp)"),
        ("Job", "slurm/della/48213 “sweep-7”"),
        ("Idle for", "3 h 20 m, since 09:10 UTC, judged until 12:30 UTC"),
        ("Memory held", "61 GB"),
        ("So far", "$21.60"),
        ("Burning", "$6.50/h, ≈ $4,750/month if left"),
        ("Rule", "Job idle: idle ≥ 30 min"),
    )
    assert message.text.startswith(
        "Fix: let the job run, its other 6 GPUs are not known to be idle."
    )
    assert message.severity == "warning"


def test_a_resolved_incident_says_why_how_long_and_how_much():
    over = opened(facts(), resolution="the allocation ended")

    assert over.title == "resolved · node-014 GPU 3, 4 · idle for 3 h 20 m, cost $21.60"
    assert (
        over.summary
        == "Job slurm/della/48213 “sweep-7”: the allocation ended. 2 of 8 GPUs had been idle for 3"
        " h 20 m."
    )
    assert over.severity == "resolved"


@pytest.mark.parametrize(
    ("gpus", "held", "words"),
    [
        ((3,), 1, "The only GPU of"),
        ((3,), 8, "1 of 8 GPUs of"),
        ((3, 4), 2, "Both GPUs of"),
        ((3, 4), 0, "Both GPUs of"),
        ((3, 4, 5), 3, "All 3 GPUs of"),
    ],
)
def test_how_many_of_the_jobs_gpus(gpus, held, words):
    message = opened(facts(job_gpus=held, gpus=tuple(map(an_idle_gpu, gpus))))

    assert message.summary.startswith(words)


def test_unknown_is_said_not_zero():
    gpu = an_idle_gpu(3, memory_bytes=None, cost_usd=None, usd_per_hour=None)

    fields = dict(opened(facts(user="", team="", gpus=(gpu, an_idle_gpu(4)))).fields)

    assert fields["Owner"] == "nobody known"
    assert (fields["Memory held"], fields["So far"], fields["Burning"]) == (
        "unknown",
        "unknown",
        "unknown",
    )


def test_example_prices_and_missing_data_are_said():
    message = opened(
        facts(gpus=(an_idle_gpu(3, has_example_rate=True),)),
        note="Not known since 12:30 UTC whether it goes on.",
    )

    assert message.text.splitlines()[:2] == [
        "Not known since 12:30 UTC whether it goes on.",
        "Dollars rest on an example list price: set your own under Pricing.",
    ]


@pytest.mark.parametrize("external_id", ["1; rm -rf /", "$(reboot)", "-f", "1\n2", "", "٣"])
def test_a_hostile_job_id_never_becomes_a_command(external_id):
    assert (
        fix(facts(external_id=external_id, job_gpus=2))
        == f"Fix: end the job, or give the GPUs back. {job_idle.LOST_OF_ANY}"
    )


@pytest.mark.parametrize(
    ("idle", "held", "words"),
    [
        (
            (3,),
            2,
            (
                "Fix: let the job run, its other GPU is not known to be idle. Start one process per"
                " GPU, or ask for fewer GPUs next time: #SBATCH --gres=gpu:1"
            ),
        ),
        (
            (3, 4),
            8,
            (
                "Fix: let the job run, its other 6 GPUs are not known to be idle. Start one process"
                " per GPU, or ask for fewer GPUs next time: #SBATCH --gres=gpu:6"
            ),
        ),
        ((3, 4), 2, f"Fix: scancel 48213, or give the GPUs back. {job_idle.LOST_OF_ANY}"),
        ((3,), 1, f"Fix: scancel 48213, or give the GPUs back. {job_idle.LOST_OF_ANY}"),
    ],
)
def test_a_job_is_to_be_ended_only_when_all_its_gpus_are_idle(idle, held, words):
    assert fix(facts(job_gpus=held, gpus=tuple(map(an_idle_gpu, idle)))) == words


@pytest.mark.parametrize(
    ("job", "command"),
    [
        (
            {"scheduler": "kubernetes", "external_id": "0af3-77", "job_name": "nlp/train-0"},
            "kubectl delete pod -n nlp -- train-0",
        ),
        ({"scheduler": "docker", "external_id": "0af3"}, "docker stop -- 0af3"),
        ({"scheduler": "podman", "external_id": "0af3"}, "podman stop -- 0af3"),
        (
            {"scheduler": "process", "external_id": "b-17-3", "pids": (17, 18)},
            "ssh -- node-014 kill 17 18",
        ),
        # nobody knows its processes
        ({"scheduler": "process", "external_id": "b-17-3"}, "end the job"),
        (
            {"scheduler": "kubernetes", "external_id": "0af3", "job_name": "nlp/$(id)"},
            "end the job",
        ),
        ({"scheduler": "process", "external_id": "$(id)", "pids": (17,)}, "end the job"),
    ],
)
def test_each_scheduler_has_its_own_command_and_what_is_lost_is_said(job, command):
    text = opened(facts(job_gpus=2, **job)).text

    assert text.startswith(f"Fix: {command}, or give the GPUs back. What was not saved is lost.")
    assert ("scale or delete that instead" in text) == command.startswith("kubectl")


@pytest.mark.parametrize(
    ("kind", "lost", "never"),
    [
        (
            "batch",
            "since its last checkpoint is lost",
            ("notebook", "kernel", "variables", "cells"),
        ),
        ("interactive", "What was not saved is lost: variables, open shells.", ("checkpoint",)),
        ("", "What was not saved is lost.", ("checkpoint", "variables")),
    ],
)
def test_what_is_lost_and_what_looks_the_same_fit_the_kind_of_job(kind, lost, never):
    text = opened(facts(job_gpus=2, kind=kind)).text

    assert lost in text
    assert not [word for word in never if word in text]


def test_a_job_that_reaches_beyond_what_is_seen_of_it_is_not_to_be_ended():
    told = opened(facts(job_gpus=2, reaches_beyond=True))

    assert told.summary.startswith("2 GPUs of job")
    assert told.text.startswith("Fix: let the job run")
    assert "scancel" not in told.text


def test_a_service_that_rests_is_not_to_be_ended():
    assert (
        fix(facts(job_gpus=2, kind="service"))
        == "Fix: see whether somebody still uses the service; if not, take it down: requests fail"
        " from then on."
    )


def test_facts_of_an_older_incident_are_read():
    known = asdict(facts())
    del known["kind"], known["pids"], known["reaches_beyond"]

    assert msgspec.convert(known, Facts) == facts()


def test_mig_instances_and_gpus_without_an_index_are_named():
    gpus = (an_idle_gpu(1, mig_profile="1g.10gb"), an_idle_gpu(None, uuid="GPU-abc"))

    assert places(gpus) == "node-014 GPU GPU-abc, 1 (1g.10gb)"


@pytest.mark.parametrize(
    ("indices", "words"),
    [
        ((3, 4), "3, 4"),  # two are as short as their range
        ((0, 1, 2), "0–2"),
        ((0, 1, 2, 4, 6, 7), "0–2, 4, 6, 7"),
        ((0, 2, 4), "0, 2, 4"),
    ],
)
def test_gpus_in_a_row_are_named_by_the_first_and_the_last(indices, words):
    assert places([an_idle_gpu(index) for index in indices]) == f"node-014 GPU {words}"


def test_instances_of_one_gpu_are_no_row():
    gpus = [an_idle_gpu(index, uuid=f"MIG-{index}", mig_profile="1g.10gb") for index in (0, 1, 2)]

    assert places(gpus) == "node-014 GPU 0 (1g.10gb), 1 (1g.10gb), 2 (1g.10gb)"


def test_many_nodes_are_counted_not_listed():
    gpus = tuple(an_idle_gpu(0, node=f"n{number}") for number in range(6))

    assert places(gpus) == "n0 GPU 0; n1 GPU 0; n2 GPU 0; n3 GPU 0; 2 more nodes"


def test_hostile_names_of_a_thousand_gpus_still_fit_slack():
    gpus = tuple(
        an_idle_gpu(number, node="<!channel>\n" * 50, model="&" * 500) for number in range(1000)
    )
    hostile = replace(
        facts(gpus=gpus), job_key="<@U1>" * 90, job_name="`" * 300, user="*" * 128, team="_" * 100
    )

    sent = payload(opened(hostile), url_buttons(opened(hostile)))

    assert is_within_limits(sent)
    assert "<!channel>" not in str(sent)


def test_facts_survive_the_row():
    assert msgspec.convert(asdict(facts()), Facts) == facts()


def over_by(*subjects: str):
    """Of incidents of these jobs, each of which cost $10.80."""
    gpu = an_idle_gpu(3)
    own = {"node": ("node-014",), "user": ("ivan",)}
    several = [
        Case(
            pk,
            job_idle.breach(facts(job_key=key, user="ivan", labels=own, gpus=(gpu,))),
            "",
            resolution,
        )
        for pk, (key, resolution) in enumerate(
            zip(subjects, ("it worked", "it ended", "it ended"), strict=False)
        )
    ]
    return in_words(several)


def test_a_job_that_was_idle_twice_is_counted_and_listed_once():
    message = over_by("slurm/della/1", "slurm/della/1")

    assert message.title == "resolved · 1 job of ivan (nlp), 2 incidents, cost $21.60"
    assert message.summary == "1 job was idle and no longer is."
    assert message.rows[1:] == (("slurm/della/1 “sweep-7”", "it worked; it ended", "$21.60"),)


def test_of_several_jobs_each_is_counted_once():
    message = over_by("slurm/della/1", "slurm/della/2", "slurm/della/1")

    assert message.title == "resolved · 2 jobs of ivan (nlp), 3 incidents, cost $32.40"
    assert message.summary == "2 jobs were idle and no longer are."
    assert [row[2] for row in message.rows[1:]] == ["$21.60", "$10.80"]


def test_as_many_jobs_as_incidents_are_counted_alone():
    title = over_by("slurm/della/1", "slurm/della/2").title

    assert title == "resolved · 2 jobs of ivan (nlp), cost $21.60"


def test_a_mail_has_what_to_type_on_a_line_of_its_own():
    message = opened(facts(job_gpus=2))

    assert message.text.startswith("Fix: scancel 48213, or give the GPUs back.")
    fix = message.paragraphs[0]
    assert fix.code == "scancel 48213"
    assert fix.text.startswith("Fix: end the job, or give the GPUs back.")
    assert "\n\n      scancel 48213\n" in plain_text(message)
    assert ">scancel 48213</pre>" in html(message)
    assert not [each for each in message.paragraphs if "scancel" in each.text]


def with_actions(*actions: str, codes: tuple[str, ...] = ()):
    breach = replace(job_idle.breach(facts()), actions=actions, codes=codes, command="")
    setting = {"rule_name": "Job idle", "severity": "warning", "zone": UTC, "now": at(211)}
    return of_group([Case(7, breach, "", "")], Setting(**setting, base="http://fleet"))


def test_several_fixes_are_numbered_in_their_order():
    drain, again = "Fix: drain the node: scontrol drain n1", "Fix: replace the GPU."

    message = with_actions(drain, again, "A test looks alike.", codes=("scontrol drain n1",))

    assert message.text.splitlines() == [
        "Fix, in this order:",
        "1. Drain the node: scontrol drain n1",
        "2. Replace the GPU.",
        "A test looks alike.",
    ]
    assert [(each.text, each.code) for each in message.paragraphs][1:3] == [
        ("1. Drain the node:", "scontrol drain n1"),
        ("2. Replace the GPU.", ""),
    ]


def test_a_hostile_action_is_escaped_in_mail():
    message = with_actions("Fix: see <b>: kill <i>", codes=("kill <i>",))

    assert "kill &lt;i&gt;</pre>" in html(message)
    assert "<b>" not in html(message)

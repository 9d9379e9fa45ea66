"""What to change: numbers from evidence, and commands that hostile names can't break out of."""

import re
import shlex
from dataclasses import replace
from typing import Any

import pytest

from fleetwatch.diagnosis import sizing
from fleetwatch.diagnosis.cause import Facts
from fleetwatch.diagnosis.causes import BY_CODE, CATALOGUE, OF_CLUSTERS, OF_NODES, of_kind
from fleetwatch.diagnosis.findings import advice
from fleetwatch.diagnosis.judgement.verdicts import CAUSES
from fleetwatch.diagnosis.shell import Place

GIB = 1024**3
NOTHING_TO_DO = ("healthy", "video_engines", "undetermined")


def test_every_cause_has_its_words_and_no_words_are_left_over():
    assert {cause.code for cause in CATALOGUE} == {*CAUSES, *OF_NODES, *OF_CLUSTERS}


@pytest.mark.parametrize(
    "cause", [cause for cause in CATALOGUE if cause.code not in NOTHING_TO_DO], ids=lambda c: c.code
)
def test_every_cause_that_wastes_says_what_helps(cause):
    assert cause.fixes
    assert cause.sentence.endswith(".")


@pytest.mark.parametrize(
    ("cores", "gpus", "workers"),
    [(None, 1, None), (16.0, 1, 16), (64.0, 1, 16), (15.9, 2, 7), (1.0, 4, 1)],
)
def test_loader_workers_are_the_cores_of_one_gpu(cores, gpus, workers):
    assert sizing.workers_per_gpu(cores, gpus) == workers


def test_an_idle_session_is_likely_a_notebook_and_a_batch_job_is_not():
    assert "notebook" in advice.advise("idle_held", Facts(kind="interactive")).steps[0].text
    of_batch = advice.advise("idle_held", Facts(kind="batch")).steps
    assert of_batch == of_kind("idle_held", "batch").fixes
    assert not [step for step in of_batch if "notebook" in step.text or "kernel" in step.text]


def test_persistence_mode_is_switched_on_where_it_is_off():
    assert (
        advice.command("persistence_off", Place("slurm", node="n 1"))
        == "ssh -- 'n 1' nvidia-smi -pm 1"
    )


def test_full_cores_want_more_cores_and_not_more_workers():
    place = Place("slurm", "7", node="n 1")
    facts = Facts(place, node_gpus=4, cores=8.0, met=frozenset({"cpu", "main1"}))

    first = advice.advise("data_starved", facts).steps[0]

    assert "(--cpus-per-gpu, now 8)" in first.text
    most = "At most the node's cores (CPUTot, as scontrol lists it) divided by the node's 4 GPUs."
    assert first.detail == most
    assert first.code == "scontrol show node 'n 1'"


def test_full_cores_alone_are_probably_why_the_gpu_is_as_little_busy_as_it_is():
    def sentence(**facts: Any) -> str:
        return advice.advise("data_starved", Facts(**facts)).sentence

    by_cores = frozenset({"util", "cpu", "long_frac"})
    words = "The job's CPU cores are full while the GPU is {}: it probably waits for its data."

    assert sentence(met=by_cores, util=0.31) == words.format("31 % busy")
    assert sentence(met=by_cores) == words.format("not")
    assert "in bursts" in sentence(met=by_cores | {"lo", "cyc_s", "dips_per_min"}, util=0.31)


@pytest.mark.parametrize("cause", [cause.code for cause in CATALOGUE])
@pytest.mark.parametrize("met", ["", "cpu", "iop", "main1"])
def test_what_is_to_be_copied_has_nothing_left_to_fill_in(cause, met):
    """Of nothing the cores, GPUs or processes are known."""
    told = advice.advise(cause, Facts(Place("slurm", "7"), met=frozenset({met} - {""})))

    for step in (*told.steps, *told.also, *told.tell):
        assert not re.search(r"\b(PID|INDEX|CORES\w*|DATASET)\b", step.code), step.code


def test_a_slow_disk_wants_the_data_staged_and_not_more_workers():
    first = advice.advise("data_starved", Facts(cores=16, met=frozenset({"iop"}))).steps[0]

    assert "wait for the disk" in first.text
    assert "rsync to $TMPDIR" in first.text


@pytest.mark.parametrize(("indexes", "typed"), [((3,), "-i 3"), ((0, 3), "-i 0,3")])
def test_the_gpus_to_reset_are_named(indexes, typed):
    steps = advice.advise("gpu_fault", Facts(indexes=indexes)).steps

    assert f"nvidia-smi --gpu-reset {typed}" in [step.code for step in steps]


def test_a_gpu_that_its_driver_lost_is_brought_back_by_a_reboot_and_no_reset_is_offered():
    steps = advice.advise("gpu_fault", Facts(indexes=(3,), is_lost=True)).numbered

    assert [step.code for step in steps][1:] == ["sudo reboot", ""]
    assert "XID 79" in steps[1].text


def test_what_takes_a_node_out_of_service_is_typed_for_its_scheduler_alone():
    """The catalogue shows Slurm's command; a finding has its own node's, or none."""
    slurm, docker = (
        advice.advise("gpu_fault", Facts(Place(scheduler, node="n1"))).numbered[0].code
        for scheduler in ("slurm", "docker")
    )

    assert slurm == "scontrol update nodename=n1 state=drain reason='GPU fault'"
    assert docker == ""


def test_one_full_thread_wants_workers():
    first = advice.advise(
        "data_starved", Facts(cores=32.0, gpus=4, gpus_on_node=4, met=frozenset({"main1"}))
    ).steps[0]

    assert "num_workers=8" in first.code
    assert "num_workers=0" in first.text


@pytest.mark.parametrize(
    ("peak", "factor"),
    [(None, None), (0.9, None), (0.426, None), (0.425, 2), (0.2125, 4), (0.01, 16)],
)
def test_a_batch_grows_by_powers_of_two_until_memory_is_full(peak, factor):
    assert sizing.batch_factor(peak) == factor


def test_a_smaller_gpu_holds_the_peak_with_room_to_spare():
    # 5 GiB x 1.3 = 6.5 GiB
    assert sizing.smaller("H100 SXM", 80 * GIB, 5 / 80) == ("MIG 1g.10gb", "a T4")
    # 8 GiB x 1.3 = 10.4 GiB: more than the 9.5 GiB of one slice
    assert sizing.smaller("H100 SXM", 80 * GIB, 8 / 80) == ("MIG 2g.20gb", "a T4")


@pytest.mark.parametrize(
    ("model", "memory_gib", "peak_gib", "found"),
    [
        ("NVIDIA H100 NVL", 93.6, 8, "MIG 1g.12gb"),  # 10.4 GiB fit its 10.75
        ("NVIDIA H100 NVL", 93.6, 30, "MIG 3g.47gb"),
        ("NVIDIA H20", 95.6, 12, "MIG 2g.24gb"),
        ("NVIDIA GH200 480GB", 95.6, 30, "MIG 3g.48gb"),
        ("NVIDIA A100-SXM4-40GB", 40, 5, "MIG 2g.10gb"),
        ("NVIDIA H200", 140.4, 5, "MIG 1g.18gb"),
    ],
)
def test_a_slice_has_the_name_that_it_has_on_this_gpu(model, memory_gib, peak_gib, found):
    assert sizing.smaller(model, memory_gib * GIB, peak_gib / memory_gib)[0] == found


def test_a_slice_is_made_of_one_gpu_and_not_of_every_gpu_of_its_node():
    facts = Facts(gpu_model="NVIDIA H20", memory_total_bytes=95.6 * GIB, memory_peak_ratio=0.05)
    made = "nvidia-smi -i {0} -mig 1 && nvidia-smi mig -i {0} -cgi 1g.12gb -C"

    assert advice.advise("oversized_gpu", facts).steps[0].code == ""
    assert advice.advise("oversized_gpu", replace(facts, indexes=(3,))).steps[
        0
    ].code == made.format(3)
    over = replace(facts, indexes=(3,), place=Place("slurm", "4711", is_over=True))
    assert advice.advise("oversized_gpu", over).steps[0].code == ""


def test_the_same_is_advised_once_and_a_slice_is_an_operators_to_cut():
    """Of 19 % of its memory a batch four times as large fits, and a slice holds it."""
    facts = Facts(gpu_model="H100 SXM", memory_total_bytes=80 * GIB, memory_peak_ratio=0.19)

    texts = [step.text for step in advice.advise("small_batch", facts).steps]

    assert [text.split(":")[0] for text in texts] == [
        "Memory peaks at 19 %",
        "Memory peaks at 15.2 GB of 80 GB",
        "Launch less",
        "Or share it",
    ]
    assert texts[1].endswith("Ask an operator to cut it: nothing may run on the GPU meanwhile.")


def test_a_batch_grows_only_into_free_memory():
    """Of 50 % no batch twice as large fits for sure, of 90 % none that is larger at all."""
    first = {
        peak: advice.advise("small_batch", Facts(memory_peak_ratio=peak)).first.text
        for peak in (None, 0.5, 0.9)
    }

    assert first[None] == first[0.5]
    assert first[0.5].startswith("Raise the batch until memory is about 85 % full")
    assert first[0.9].startswith("Launch less: torch.compile with CUDA graphs")


def test_what_can_not_be_sliced_is_not_sliced_and_what_is_full_has_no_smaller_one():
    assert sizing.smaller("L40S", 45 * GIB, 0.1) == ("a T4",)
    assert sizing.smaller("H100 SXM", 80 * GIB, 0.9) == ()
    assert sizing.smaller("H100 SXM", 80 * GIB, None) == ()


@pytest.mark.parametrize(
    ("place", "command"),
    [
        (Place("slurm", "4711"), "scancel 4711"),
        (Place("kubernetes", "uid", "nlp/train-0"), "kubectl delete pod -n nlp -- train-0"),
        (Place("docker", "0af3"), "docker stop -- 0af3"),
        (Place("process", "", node="gpu-01", pids=(17, 18)), "ssh -- gpu-01 kill 17 18"),
        (Place(), ""),
    ],
)
def test_a_job_is_ended_in_the_words_of_its_scheduler(place, command):
    assert advice.command("idle_held", place) == command


def test_of_a_job_that_ended_nothing_is_left_to_end():
    told = advice.advise("hung", advice.Facts(Place("slurm", "4711", is_over=True)))

    assert told.command == ""
    assert told.steps[0] == advice.OVER
    assert not any(step.text.startswith("End it") for step in told.steps)
    running = advice.advise("hung", advice.Facts(Place("slurm", "4711"))).steps
    assert advice.OVER not in running
    assert running[0].text.startswith("End it")


@pytest.mark.parametrize("cause", ["hung", "idle_held", "allocated_no_process"])
def test_a_job_that_may_work_is_not_to_be_ended(cause):
    place = Place("slurm", "4711", may_work=True)

    told = advice.advise(cause, Facts(place, gpus=8, affected_gpus=1))

    assert told.command == ""
    assert told.steps[0] == advice.ASK_FIRST
    assert BY_CODE[cause].fixes[0] not in told.steps
    assert told.first == advice.ASK_FIRST


def test_of_a_jobs_only_gpu_nothing_is_said_as_of_several():
    told = advice.advise("idle_held", Facts(Place("slurm", "4711", may_work=True), gpus=1))

    assert told.first.text.endswith("its GPU may be at work now.")


@pytest.mark.parametrize("cause", ["hung", "idle_held", "allocated_no_process"])
def test_where_a_job_is_to_be_ended_it_is_said_what_is_lost(cause):
    [first, *_] = advice.advise(cause, Facts(Place("slurm", "4711"))).steps

    assert "lost" in first.text


def test_a_pod_that_is_made_again_is_told_of():
    pod = Place("kubernetes", "uid", "nlp/train-0")

    assert advice.advise("hung", Facts(pod)).steps[-1] == advice.PODS
    assert advice.PODS not in advice.advise("hung", Facts(Place("slurm", "4711"))).steps


def test_the_slow_rank_is_named_and_its_node_left_out():
    told = advice.advise(
        "straggler", Facts(Place("slurm", "7", node="gpu-02"), gpus=16, indexes=(5,))
    )

    assert told.steps[0] == advice.Step(
        "The slow one is GPU 5 of gpu-02.", "sbatch --exclude=gpu-02 job.sh"
    )


@pytest.mark.parametrize(
    ("cause", "place", "step"),
    [
        (
            "hung",
            Place("slurm", "7"),
            (
                (
                    "End it and let it start again from its last checkpoint: steps since then are"
                    " lost."
                ),
                "scancel 7",
            ),
        ),
        (
            "bursty_service",
            Place("slurm", "7"),
            ("Put several models or replicas on one GPU: MPS, time-slicing or MIG.", ""),
        ),
        ("no_tensor_cores", Place(), ("Compute in BF16.", "")),  # its code takes two lines
        ("undetermined", Place(), ("", "")),
    ],
)
def test_the_first_thing_to_do_is_the_first_fix_with_what_fits_into_a_line(cause, place, step):
    assert advice.advise(cause, Facts(place)).first == advice.Step(*step)


def test_of_a_job_that_ended_the_first_thing_to_do_is_about_its_next_run():
    place = Place("slurm", "7", is_over=True)

    told = advice.advise("allocated_no_process", Facts(place)).first

    assert told == advice.Step(
        "Look why nothing reached the GPUs: a shell left open, a script that crashed, or one that"
        " waits for its other nodes or its data."
    )


def test_loaders_that_wait_for_the_disk_are_told_how_many_they_may_be():
    told = advice.advise("data_starved", Facts(cores=12.0, gpus_on_node=2, met=frozenset({"iop"})))

    assert any("num_workers=6" in step.code for step in told.steps)
    assert not any("device_count" in step.code for step in told.steps)


def test_a_sick_node_is_taken_out_of_service_and_no_job_is_ended():
    assert (
        advice.command("throttled", Place("slurm", "7", node="gpu-01"))
        == "scontrol update nodename=gpu-01 state=drain reason='GPU slowed by heat or power'"
    )
    assert advice.command("data_starved", Place("slurm", "7")) == ""


@pytest.mark.parametrize(
    "name", ["7; rm -rf /", "$(id)", "`id`", "a'b\"c", "x\ny && id", "--all", "-f", "a\x1b[31m"]
)
def test_a_hostile_name_is_one_word_of_the_command(name):
    for place, words in ((Place("slurm", name), 2), (Place("docker", name), 4)):
        typed = advice.command("hung", place)
        assert "\n" not in typed
        assert "\x1b" not in typed
        split = shlex.split(typed)
        assert len(split) == words
        assert not split[-1].startswith("-")


def test_a_profiler_is_pointed_at_the_process_that_is_known():
    told = advice.advise("hung", Facts(Place(pids=(4711,))))

    assert told.tell[0].code == "py-spy dump --pid 4711"
    unknown = advice.advise("hung", Facts()).tell[0]
    assert unknown.code == 'py-spy dump --pid $(pgrep -n -u "$USER" python)'
    assert unknown.text.endswith("On the job's node, as its user:")
    over = advice.advise("hung", Facts(Place(is_over=True))).tell[0]
    assert (over.code, over.text.endswith("while it runs next.")) == ("", True)


def test_what_is_to_be_copied_in_a_list_is_the_fix_and_no_look_up():
    facts = Facts(Place("slurm", "7", node="n1"), cores=8.0, met=frozenset({"cpu", "main1"}))
    told = advice.advise("data_starved", facts)

    assert told.steps[0].code == "scontrol show node n1"
    assert (told.first.text, told.first.code) == (told.steps[0].text, "")


@pytest.mark.parametrize("cause", [cause.code for cause in CATALOGUE])
def test_a_running_jobs_step_with_py_spy_has_its_command(cause):
    told = advice.advise(cause, Facts(Place("slurm", "7")))

    for step in (*told.steps, *told.also, *told.tell):
        assert ("py-spy" in step.text) <= bool(step.code), step.text


def test_of_a_job_that_is_over_nothing_is_free_for_others():
    over = advice.advise("idle_held", Facts(Place("slurm", "7", is_over=True)))
    running = advice.advise("idle_held", Facts(Place("slurm", "7")))

    assert over.range_words == "had it ended at once"
    assert running.range_words == "the GPU is free for others at once"


def test_what_the_rest_of_the_words_promise_is_said_as_hours_not_as_free_gpus():
    assert "GPUs become free only when it does" in BY_CODE["data_starved"].range_words


def test_a_service_that_rests_is_no_notebook_and_is_not_to_be_ended():
    place = Place("slurm", "7", is_service=True)

    told = advice.advise("idle_held", Facts(place, kind="service"))

    assert told.command == ""
    words = " ".join((told.cause.sentence, told.cause.alike, *(step.text for step in told.steps)))
    assert "service" in words
    assert not any(word in words for word in ("notebook", "script", "kernel", "person"))
    # one on which nothing runs has nothing to wait for
    assert advice.command("allocated_no_process", place) == "scancel 7"


def test_cores_and_gpus_are_those_of_one_node():
    facts = Facts(Place("slurm", "7"), gpus=16, gpus_on_node=8, cores=64.0)

    assert (
        advice.advise("data_starved", facts).steps[0].text
        == "With 64 cores for 8 GPUs of a node, 8 workers per GPU."
    )
    more = advice.advise("data_starved", replace(facts, met=frozenset({"cpu"}))).steps[0]
    assert "(--cpus-per-gpu, now 8)," in more.text
    assert more.text.startswith("Its 64 cores for 8 GPUs of a node are full")


def test_a_pod_asks_for_as_many_cores_as_its_node_has():
    facts = Facts(Place("kubernetes", node="n-1"), cores=8.0, met=frozenset({"cpu"}))

    more = advice.advise("data_starved", facts).steps[0]

    assert "(requests.cpu, now 8)" in more.text
    assert more.detail == "At most what its node says is Allocatable."
    assert more.code == "kubectl describe node n-1"


@pytest.mark.parametrize(
    ("met", "first", "also"),
    [
        # full cores: nothing was read that speaks of the disk
        ({"util", "cpu"}, "Its cores are full", ["If the disk is slow"]),
        ({"util", "iop"}, "Processes wait for the disk", ["If the cores are full"]),
        ({"util", "lo"}, "While cores rest", ["If the cores are full", "If the disk is slow"]),
        # of nothing that was read nothing is ruled out
        (set(), "While cores rest", []),
    ],
)
def test_a_step_for_a_sign_that_is_not_met_stands_apart(met, first, also):
    advised = advice.advise("data_starved", Facts(met=frozenset(met)))

    assert advised.steps[0].text.startswith(first)
    assert [step.text.partition(":")[0] for step in advised.also] == also
    assert not set(advised.also) & set(advised.steps)


def test_how_many_gpus_to_ask_for_is_said_only_where_they_were_counted():
    advised = advice.advise("partial_idle", Facts(Place("slurm", "7"), gpus=4, affected_gpus=4))

    assert [step.text for step in advised.steps[:2]] == [
        "Ask for as many GPUs as the program uses, or use them all.",
        "Start one process per GPU.",
    ]


def test_fewer_gpus_of_several_nodes_are_asked_for_together():
    facts = Facts(Place("slurm", "7"), gpus=16, gpus_on_node=8, affected_gpus=4)

    assert advice.advise("partial_idle", facts).steps[0].code == "#SBATCH --gpus=12"
    assert (
        advice.advise("partial_idle", replace(facts, gpus=8)).steps[0].code
        == "#SBATCH --gres=gpu:4"
    )


@pytest.mark.parametrize(
    ("profile", "memory_gib", "found"),
    [
        ("3g.40gb", 39.25, ("MIG 1g.10gb", "a T4")),
        ("2g.20gb+me", 19.5, ("MIG 1g.10gb", "a T4")),
        ("1g.10gb", 9.5, ()),
        ("9g.1gb", 39.25, ("a T4",)),
    ],
)
def test_of_a_mig_instance_smaller_slices_of_its_parent_are_named_and_none_is_made(
    profile, memory_gib, found
):
    facts = Facts(
        gpu_model="NVIDIA A100-SXM4-80GB",
        mig_profile=profile,
        memory_total_bytes=memory_gib * GIB,
        memory_peak_ratio=0.1,
    )

    assert (
        sizing.smaller(facts.gpu_model, facts.memory_total_bytes, 0.1, mig_profile=profile) == found
    )
    assert not any(
        "nvidia-smi mig" in step.code for step in advice.advise("oversized_gpu", facts).steps
    )

import threading
import time

import pytest

from agent.readings import GPUInfo, Holdings, Job, SchedulerError
from agent.workloads.poller import HURRY_S, LOOK_S, Poller

NOW = 1_794_000_000_000
GPU = GPUInfo("GPU-1")
BOOKS = Holdings(jobs=[Job("slurm/della/4711")])


class Scheduler:
    """Answers what it was given, in turn; an exception is raised."""

    kind, interval_s = "slurm", 30.0

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.was_asked = threading.Event()

    def poll(self, gpus, now_ms):
        self.asked.append((list(gpus), now_ms))
        self.was_asked.set()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Watch:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.s = 1000.0

    def __call__(self):
        return self.s


def poller(scheduler, watch):
    """A poller whose thread never runs: the test asks."""
    made = Poller(scheduler, now_ms=lambda: NOW, clock_s=watch)
    made._thread = threading.current_thread()
    made.look([GPU])
    return made


def test_before_the_first_answer_nothing_is_known():
    answer = poller(Scheduler(BOOKS), Watch()).look([GPU])

    assert (answer.status.kind, answer.status.ok, answer.status.seen_ms, answer.fresh) == (
        "slurm",
        False,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("age_s", "is_fresh"), [(0, True), (59.9, True), (60, False), (86_400, False)]
)
def test_an_answer_counts_for_less_than_two_intervals(age_s, is_fresh):
    watch = Watch()
    books = poller(Scheduler(BOOKS), watch)
    books.ask()
    watch.s += age_s

    answer = books.look([GPU])

    assert (answer.status.ok, answer.status.seen_ms) == (is_fresh, NOW)
    assert answer.fresh == (BOOKS if is_fresh else None)
    assert answer.known == BOOKS


def test_one_failure_between_two_answers_is_no_gap():
    watch = Watch()
    books = poller(Scheduler(BOOKS, SchedulerError("slurmctld is away"), BOOKS), watch)

    seen = []
    for _ in range(3):
        books.ask()
        watch.s += 29
        seen.append(books.look([GPU]).status.ok)

    assert seen == [True, True, True]


def test_a_failure_that_lasts_is_a_gap_and_said_once(caplog):
    watch = Watch()
    books = poller(Scheduler(BOOKS, SchedulerError("slurmctld is away")), watch)

    for _ in range(4):
        books.ask()
        watch.s += 30

    assert books.look([GPU]).status.ok is False
    assert [record.message for record in caplog.records] == [
        "the scheduler does not answer kind=slurm: slurmctld is away"
    ]


def test_an_answer_that_nobody_foresaw_does_not_end_the_questions(caplog):
    books = poller(Scheduler(ValueError("no such key"), BOOKS), Watch())

    books.ask()
    books.ask()

    assert books.look([GPU]).fresh == BOOKS
    assert "was not understood" in caplog.text


def test_the_scheduler_is_asked_about_the_gpus_of_the_last_look():
    scheduler = Scheduler(BOOKS)
    books = poller(scheduler, Watch())

    books.look([GPU])
    books.ask()

    assert scheduler.asked == [([GPU], NOW)]


def test_an_answer_says_nothing_of_a_gpu_that_came_later():
    books = poller(Scheduler(BOOKS), Watch())
    books.ask()

    both = books.look([GPU, GPUInfo("GPU-2")])
    books.ask()

    assert (both.status.ok, both.fresh) == (False, None)
    assert books.look([GPU, GPUInfo("GPU-2")]).fresh == BOOKS
    assert books.look([GPU]).fresh == BOOKS


def test_a_gpu_that_comes_has_the_scheduler_asked_at_once():
    asked = threading.Semaphore(0)

    class Counting(Scheduler):
        def poll(self, gpus, now_ms):
            asked.release()
            return BOOKS

    books = Poller(Counting(BOOKS))
    books.look([GPU])
    assert asked.acquire(timeout=5)
    deadline_s = time.monotonic() + 5
    while not books.look([GPU]).status.ok and time.monotonic() < deadline_s:
        time.sleep(0.001)

    books.look([GPUInfo("MIG-1")])

    assert asked.acquire(timeout=5)
    books.stop()


def test_a_scheduler_that_never_answers_holds_nobody_up():
    release = threading.Event()

    class Hanging(Scheduler):
        def poll(self, gpus, now_ms):
            self.was_asked.set()
            release.wait(10)
            return BOOKS

    scheduler = Hanging(BOOKS)
    books = Poller(scheduler)
    books.look([GPU])
    assert scheduler.was_asked.wait(5)

    answer = books.look([GPU])

    assert answer.status.ok is False
    books.stop()
    release.set()


class Wake:
    """An event that nobody sets: waiting for it moves the clock."""

    def __init__(self, watch):
        self.watch = watch

    def wait(self, seconds):
        self.watch.s += seconds
        return False

    def set(self):
        raise AssertionError


class Changing(Scheduler):
    """Shows a change of the host at some seconds, as slurmd's control groups do; it stays until the
    next question.
    """

    def __init__(self, watch, *changes_s):
        super().__init__(BOOKS)
        self.watch, self.changes_s, self.looks = watch, changes_s, 0

    def has_changed(self):
        self.looks += 1
        return any(self.watch.s >= change_s for change_s in self.changes_s)


@pytest.mark.parametrize(
    ("changes_s", "is_settling", "waited_s", "is_change"),
    [
        ((), False, 30, False),
        ((1020,), False, 20, True),  # after a quiet time at once
        ((1001,), False, HURRY_S, True),  # jobs of seconds: not more often than that
        ((), True, HURRY_S, False),  # once more, when the scheduler has settled
    ],
)
def test_a_change_on_this_host_is_asked_about_at_once_and_again_when_it_has_settled(
    changes_s, is_settling, waited_s, is_change
):
    watch = Watch()
    scheduler = Changing(watch, *changes_s)
    books = poller(scheduler, watch)
    books._wake = Wake(watch)

    reason = books._pause(watch.s, is_settling=is_settling)

    assert (watch.s - 1000.0, reason) == (waited_s, is_change)
    assert scheduler.looks == waited_s / LOOK_S


def test_traces_that_nobody_foresaw_do_not_end_the_questions(caplog):
    asked = threading.Semaphore(0)

    class Broken(Scheduler):
        interval_s = 0.01

        def poll(self, gpus, now_ms):
            asked.release()
            return BOOKS

        def has_changed(self):
            raise ValueError("no such group")

    books = Poller(Broken(BOOKS))
    books.look([GPU])
    is_asked = [asked.acquire(timeout=10) for _ in range(2)]
    books.stop()

    assert is_asked == [True, True]
    assert "traces of jobs were not understood" in caplog.text


def test_a_scheduler_that_sees_no_changes_is_asked_by_the_clock():
    watch = Watch()
    books = poller(Scheduler(BOOKS), watch)
    books._wake = Wake(watch)

    books._pause(watch.s - 10, is_settling=False)

    assert watch.s == 1020.0


def test_why_a_source_does_not_answer_is_said_from_the_first_question_until_it_does():
    watch = Watch()
    books = poller(
        Scheduler(SchedulerError("slurmctld is away"), BOOKS, SchedulerError("munge: no socket")),
        watch,
    )

    seen = [books.look([GPU]).status.why]
    for later_s in (0, 0, 59.9, 0.1):
        books.ask()
        watch.s += later_s
        seen.append(books.look([GPU]).status.why)

    assert seen == ["it was not asked yet", "slurmctld is away", "", "", "munge: no socket"]


def test_books_that_can_not_tell_all_are_believed_in_what_they_tell_and_conclude_nothing_of_the_rest():
    doubtful = Holdings(jobs=BOOKS.jobs, doubt="which GPUs job 5 holds is not known")
    books = poller(Scheduler(doubtful), Watch())
    books.ask()

    answer = books.look([GPU])

    assert (answer.status.ok, answer.status.why) == (False, "which GPUs job 5 holds is not known")
    assert answer.fresh == doubtful

"""Compare the estimated time left with the truth, in simulated sweeps of known durations."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from bakeoff.suite.commands.progress import PlainLines, ProgressState, display_for
from bakeoff.suite.events import Event, Finished, Progressed, Started
from bakeoff.suite.planning.cost_model import kinds_of, seconds_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan, Point, Result, Status, Trial
from bakeoff.suite.spec import Model, Scale, vary
from bakeoff.suite.sweep.pending import Pending, Work, fixed_environment, pending_work
from tests.suite.heads_sweep import HEADS
from tests.suite.small_ablation import make_ablation

SCALE = {"dim": 32, "depth": 2, "length": 64, "steps": 400, "batch": 16, "num_evaluations": 8}
# The ratio of a training's time to the time that its FLOPs suggest.
OF_A_MIXER = {"attention": 1.0, "lstm": 3.0, "conv": 0.5, "linear_transformer": 1.5}
TIMING_SECONDS = (4.0, 9.0)
PAUSE = 0.2
Moment = tuple[float, Event]


@pytest.fixture(scope="module")
def mixed() -> list[Plan]:
    """Return trainings of width 16 to 128 on two tasks, parameter counts, and timings."""
    sizes = make_ablation(
        axes=[vary("mixer", list(OF_A_MIXER)), vary("dim", [16, 32, 64, 128])],
        scale=SCALE,
        combine="cross",
        baseline=Model(mixer="attention"),
        probes=["quality", "parameters"],
    )
    times = make_ablation(
        axes=[vary("mixer", list(OF_A_MIXER))],
        tasks=["shakespeare_characters", "mqar_small"],
        baseline=Model(mixer="attention"),
        probes=["quality", "floors", "step_time", "mixer_time"],
        scales={"quick": Scale(**SCALE, lengths=[64, 256, 1024])},
    )
    return [plan(sizes, seeds=3), plan(times, seeds=5)]


@pytest.fixture(scope="module")
def short(mixed: list[Plan]) -> list[Plan]:
    """Return a plan with few trainings and many timings."""
    about = make_ablation(
        axes=[vary("mixer", ["attention", "linear_transformer"])],
        tasks=["mqar_small"],
        baseline=Model(mixer="attention"),
        probes=["quality", "floors", "mixer_time"],
        scales={"quick": Scale(**SCALE, lengths=[64, 128, 256, 512, 1024])},
    )
    return [plan(about, seeds=3)]


class Truth:
    """The true duration of each trial in a simulated sweep."""

    def __init__(self, works: Sequence[Work], machine: float, seed: int) -> None:
        drawn = random.Random(seed)
        self._seconds = {
            trial.trial_id: self._of(trial, machine, drawn) * drawn.uniform(0.85, 1.2)
            for trial, _ in works
        }

    def of(self, trial: Trial) -> float:
        return self._seconds[trial.trial_id]

    def _of(self, trial: Trial, machine: float, drawn: random.Random) -> float:
        if trial.is_timing:
            return drawn.uniform(*TIMING_SECONDS)
        if trial.training is None:
            return 0.05
        model = trial.subjects[0]
        per_token = 3 * (24 * model.dim**2 * model.depth) / 2e10
        tokens = trial.length * trial.batch * trial.training.steps
        in_python = 4e-3 * trial.training.steps
        return machine * (OF_A_MIXER[model.mixer] * per_token * tokens + in_python) + 1.0


def schedule(
    missing: Pending, truth: Truth, places: int, pause: float
) -> tuple[list[Moment], float]:
    """Simulate a sweep; return its events with their times, and its total time in seconds.

    Packed trials run first, in order, then timings. Each timing starts `pause` seconds after the
    previous one, because its process must start.
    """
    moments: list[Moment] = []
    free = [0.0] * places
    for trial, _ in missing.packed:
        begin = heapq.heappop(free) + PAUSE
        moments += happens(trial, begin, truth.of(trial))
        heapq.heappush(free, begin + truth.of(trial))
    end = max(free)
    for trial, _ in missing.alone:
        moments += happens(trial, end + pause, truth.of(trial))
        end += pause + truth.of(trial)
    return sorted(moments, key=lambda moment: moment[0]), end


def happens(trial: Trial, begin: float, seconds: float) -> Iterator[Moment]:
    yield begin, Started(trial.trial_id, "here")
    if trial.training is not None:
        steps = trial.training.steps
        for k in range(1, 9):
            point = Point(
                metric="loss",
                step=k * steps // 8,
                flops=None,
                value=1.0,
                unit="nat",
                better="lower",
            )
            yield begin + k * seconds / 9, Progressed(trial.trial_id, (point,))
    found = Result(
        trial_id=trial.trial_id, status=Status.OK, provenance=HEADS.place, seconds=seconds
    )
    yield begin + seconds, Finished(found)


def said_at(
    share: float,
    plans: Sequence[Plan],
    missing: Pending,
    happened: tuple[list[Moment], float],
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[float, float]:
    """Return the estimated and the true time left, after `share` of the total time."""
    now = 1_000.0
    monkeypatch.setattr("bakeoff.suite.commands.progress.time.monotonic", lambda: now)
    state = state_of(plans, missing)
    moments, total = happened
    for moment, event in moments:
        if moment > share * total:
            break
        now = 1_000.0 + moment
        state.take(event)
    now = 1_000.0 + share * total
    left = state.eta_seconds()
    assert left is not None
    return left, (1 - share) * total


def state_of(plans: Sequence[Plan], missing: Pending) -> ProgressState:
    display = display_for(plans, missing, Console(file=StringIO()))
    assert isinstance(display, PlainLines)
    return replace(display.state, start=1_000.0)


@pytest.mark.parametrize("places", [1, 2, 8])
@pytest.mark.parametrize("machine", [0.4, 4.0])
@pytest.mark.parametrize("sweep", ["mixed", "short"])
def test_after_a_tenth_the_time_left_is_right_within_half(
    sweep: str,
    machine: float,
    places: int,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check machines of several speeds, with mixers whose time is not proportional to FLOPs."""
    plans: list[Plan] = request.getfixturevalue(sweep)
    missing = replace(pending_work(plans, {}), num_places=float(places))
    works = (*missing.packed, *missing.alone)
    for seed in range(2):
        happened = schedule(missing, Truth(works, machine, seed), places, 3 * machine)
        for share in (0.1, 0.3, 0.6):
            left, truth = said_at(share, plans, missing, happened, monkeypatch)
            print(sweep, machine, places, share, f"{happened[1]:.0f} {left / truth:.2f}")
            assert truth / 1.5 < left < 1.5 * truth


def test_before_anything_has_run_the_times_of_an_earlier_run_count(
    short: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a machine five times slower than estimated, after an earlier run of one seed."""
    every = pending_work(short, {})
    truth = Truth((*every.packed, *every.alone), 5.0, 0)
    before = {t.trial_id: truth.of(t) for p in short for t in p.trials if t.seed == 0}
    missing = pending_work(short, {key: {"here"} for key in before}, fixed_environment("here"))
    happened = schedule(missing, truth, 1, 3.0)
    known = replace(missing, past=before, num_places=1.0)
    left, total = said_at(0.0, short, known, happened, monkeypatch)
    assert total / 1.5 < left < 1.5 * total
    unknown = replace(missing, num_places=1.0)
    assert said_at(0.0, short, unknown, happened, monkeypatch)[0] < total / 1.5


@pytest.mark.parametrize("places", [2, 8])
def test_the_few_that_come_first_hardly_delay_the_rest(mixed: list[Plan], places: int) -> None:
    missing = pending_work(mixed, {})
    longest_first = sorted(missing.packed, key=lambda work: -seconds_of(*work))
    ends = [max(loads(works, places)) for works in (missing.packed, longest_first)]
    assert ends[0] < 1.1 * ends[1]
    begun = {kinds_of(trial)[1] for trial, _ in missing.packed[:20]}
    assert begun == {kinds_of(trial)[1] for trial, _ in missing.packed}


def loads(works: Sequence[Work], places: int) -> list[float]:
    free = [0.0] * places
    for work in works:
        heapq.heapreplace(free, free[0] + seconds_of(*work))
    return free

"""Check that a timing run reports known ratios, on a clock that only the candidates advance."""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.benchmarks.interleaved import Limits, Times, TimingRun

LIMITS = Limits(
    warm_up_rounds=3, warm_up_seconds=0, least_rounds=9, most_rounds=40, seconds=1e9, patience=1e9
)


@pytest.fixture(autouse=True)
def _little_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip garbage collection, which would take two seconds per timing run after other tests."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


def run(
    limits: Limits = LIMITS,
    seed: int = 0,
    settle: Callable[[], object] = lambda: None,
    **seconds: Callable[[], float],
) -> Times:
    """Run a timing run on a clock that advances only by the given seconds of each candidate."""
    now = [0.0]

    def works(seconds: Callable[[], float]) -> None:
        now[0] += seconds()

    candidates = {name: partial(works, each) for name, each in seconds.items()}
    return TimingRun(candidates, limits, settle=settle, clock=lambda: now[0], seed=seed).run()


def notes(log: list[str], name: str, seconds: float = 0.1) -> Callable[[], float]:
    """Return a pass that appends its name to the log."""
    return lambda: log.append(name) or seconds  # type: ignore[func-returns-value]


def test_exact_times_give_the_exact_ratio_in_the_fewest_rounds() -> None:
    times = run(ours=lambda: 0.3, theirs=lambda: 0.2)
    ratio = times.ratio("ours", "theirs")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.5, 1.5, 1.5))
    assert times.median("ours") == pytest.approx(0.3)
    assert len(times.seconds["ours"]) == len(times.seconds["theirs"]) == LIMITS.least_rounds


def test_every_candidate_runs_once_a_round_in_random_order() -> None:
    order: list[str] = []
    run(**{name: notes(order, name) for name in "abc"})  # type: ignore[arg-type]
    rounds = [tuple(order[i : i + 3]) for i in range(0, len(order), 3)]
    assert len(rounds) == LIMITS.warm_up_rounds + LIMITS.least_rounds
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len(Counter(rounds)) > 3


def test_a_slow_spell_that_hits_all_alike_moves_no_ratio() -> None:
    noise = random.Random(1)
    spells = (spell for _ in range(10_000) for spell in [noise.choice([1.0, 3.0])] * 2)  # by rounds
    ratio = run(ours=lambda: 0.11 * next(spells), theirs=lambda: 0.1 * next(spells)).ratio(
        "ours", "theirs"
    )
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.1, 1.1, 1.1))


@pytest.mark.whole
def test_noise_lasts_until_the_cap_and_the_interval_mostly_covers_the_truth() -> None:
    covered = 0
    for seed in range(60):
        draw = partial(random.Random(seed).lognormvariate, 0.0, 0.2)
        times = run(seed=seed, ours=draw, theirs=draw)
        assert len(times.seconds["ours"]) == LIMITS.most_rounds
        ratio = times.ratio("ours", "theirs")
        assert ratio.low <= ratio.value <= ratio.high
        covered += ratio.low <= 1.0 <= ratio.high
    assert covered >= 50  # out of 60; 57 are expected for 95 %


@pytest.mark.parametrize(
    ("limits", "ours", "num_rounds"),
    [({"least_rounds": 5, "seconds": 1.0}, 2.0, 5), ({"patience": 15.0}, 50.0, 3)],
    ids=["time", "patience"],
)
def test_a_slow_timing_run_ends_after_the_fewest_rounds(
    limits: dict[str, Any], ours: float, num_rounds: int
) -> None:
    limited = Limits(warm_up_rounds=1, warm_up_seconds=0, **limits)
    times = run(limited, ours=lambda: ours, theirs=random.Random(0).random)
    assert len(times.seconds["ours"]) == num_rounds


def test_a_short_pass_is_repeated_and_counts_as_one() -> None:
    calls: list[str] = []
    limits = Limits(warm_up_seconds=0, least_sample=2**-10)  # powers of two, so that sums are exact
    times = run(limits, ours=notes(calls, "pass", 2**-17), theirs=lambda: 2**-16)
    assert len(calls) == limits.warm_up_rounds + 2**7 * limits.least_rounds
    assert times.median("ours") == 2**-17


def test_the_device_is_idle_before_and_after_each_sample() -> None:
    seen: list[str] = []
    run(settle=lambda: seen.append("idle"), ours=notes(seen, "pass"))
    assert seen == ["idle", "pass", "idle"] * (LIMITS.warm_up_rounds + LIMITS.least_rounds)


def test_garbage_waits_and_is_collected_again_after_an_error() -> None:
    def fails() -> None:
        assert not gc.isenabled()
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        TimingRun({"ours": fails}).run()
    assert gc.isenabled()


def test_the_interval_draws_whole_rounds() -> None:
    """Check bootstrap intervals: drawn separately, the two would look equal, not 2 to 1."""
    slow = tuple(random.Random(2).uniform(1, 5) for _ in range(20))
    ratio = Times({"a": slow, "b": tuple(s / 2 for s in slow)}).ratio("a", "b")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))

"""Does the instrument say what is so? On a clock that stands still unless a contestant moves it."""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.benchmarks.interleaved import Contest, Limits, Times

LIMITS = Limits(
    warm_up_rounds=3, warm_up_seconds=0, least_rounds=9, most_rounds=40, seconds=1e9, patience=1e9
)


class Clock:
    """Seconds go by only when a contestant works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, seconds: Callable[[], float]) -> Callable[[], None]:
        def work() -> None:
            self.now += seconds()

        return work


def test_exact_times_give_the_exact_ratio_in_the_fewest_rounds() -> None:
    clock = Clock()
    pair = {"ours": clock.takes(lambda: 0.3), "theirs": clock.takes(lambda: 0.2)}
    times = Contest(pair, LIMITS, clock=clock).run()
    ratio = times.ratio("ours", "theirs")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.5, 1.5, 1.5))
    assert times.median("ours") == pytest.approx(0.3)
    assert len(times.seconds["ours"]) == len(times.seconds["theirs"]) == LIMITS.least_rounds


def test_every_contestant_runs_once_a_round_in_an_order_of_chance() -> None:
    clock, order = Clock(), []

    def contestant(name: str) -> Callable[[], None]:
        return clock.takes(lambda: order.append(name) or 0.1)  # type: ignore[func-returns-value]

    Contest({name: contestant(name) for name in "abc"}, LIMITS, clock=clock).run()
    rounds = [tuple(order[i : i + 3]) for i in range(0, len(order), 3)]
    assert len(rounds) == LIMITS.warm_up_rounds + LIMITS.least_rounds
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len(Counter(rounds)) > 3


def test_a_slow_spell_that_hits_all_alike_moves_no_ratio() -> None:
    clock, noise = Clock(), random.Random(1)
    spells = iter([noise.choice([1.0, 3.0]) for _ in range(10_000)])
    spell = [1.0, 0]

    def seconds(base: float) -> float:
        if spell[1] % 2 == 0:  # once a round of two
            spell[0] = next(spells)
        spell[1] += 1
        return base * spell[0]

    pair = {
        "ours": clock.takes(lambda: seconds(0.11)), "theirs": clock.takes(lambda: seconds(0.1)),
    }  # fmt: skip
    ratio = Contest(pair, LIMITS, clock=clock).run().ratio("ours", "theirs")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.1, 1.1, 1.1))


def test_noise_lasts_until_the_cap_and_the_interval_mostly_covers_the_truth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gc, "collect", lambda: 0)  # 60 times through all that other tests hold
    covered = 0
    for seed in range(60):
        clock, noise = Clock(), random.Random(seed)
        pair = {
            "ours": clock.takes(lambda noise=noise: noise.lognormvariate(0.0, 0.2)),
            "theirs": clock.takes(lambda noise=noise: noise.lognormvariate(0.0, 0.2)),
        }
        times = Contest(pair, LIMITS, clock=clock, seed=seed).run()
        assert len(times.seconds["ours"]) == LIMITS.most_rounds
        ratio = times.ratio("ours", "theirs")
        assert ratio.low <= ratio.value <= ratio.high
        covered += ratio.low <= 1.0 <= ratio.high
    assert covered >= 50  # of 60; 57 are expected of 95 %


def test_time_runs_out_but_the_fewest_rounds_are_kept() -> None:
    clock = Clock()
    limits = Limits(warm_up_rounds=1, warm_up_seconds=0, least_rounds=5, seconds=1.0)
    pair = {"ours": clock.takes(lambda: 2.0), "theirs": clock.takes(random.Random(0).random)}
    assert len(Contest(pair, limits, clock=clock).run().seconds["ours"]) == 5


def test_patience_runs_out_before_the_fewest_rounds() -> None:
    clock = Clock()
    limits = Limits(warm_up_rounds=1, warm_up_seconds=0, patience=15.0)
    pair = {"ours": clock.takes(lambda: 50.0), "theirs": clock.takes(lambda: 50.0)}
    assert len(Contest(pair, limits, clock=clock).run().seconds["ours"]) == 3


def test_a_short_pass_is_repeated_and_told_as_one() -> None:
    clock, calls = Clock(), []
    limits = Limits(warm_up_seconds=0, least_sample=2**-10)  # powers of two: sums are exact
    pair = {
        "ours": clock.takes(lambda: calls.append(1) or 2**-17),  # type: ignore[func-returns-value]
        "theirs": clock.takes(lambda: 2**-16),
    }
    times = Contest(pair, limits, clock=clock).run()
    assert len(calls) == limits.warm_up_rounds + 2**7 * limits.least_rounds
    assert times.median("ours") == 2**-17


def test_the_device_is_idle_before_and_after_each_sample() -> None:
    clock, seen = Clock(), []
    pair = {"ours": clock.takes(lambda: seen.append("pass") or 0.1)}  # type: ignore[func-returns-value]
    Contest(pair, LIMITS, settle=lambda: seen.append("idle"), clock=clock).run()
    assert seen == ["idle", "pass", "idle"] * (LIMITS.warm_up_rounds + LIMITS.least_rounds)


def test_garbage_waits_and_is_collected_again_after_an_error() -> None:
    def fails() -> None:
        assert not gc.isenabled()
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        Contest({"ours": fails}).run()
    assert gc.isenabled()


def test_the_interval_draws_whole_rounds() -> None:
    """Drawn apart, the two would look unequal; in every round one takes twice as long."""
    slow = tuple(random.Random(2).uniform(1, 5) for _ in range(20))
    ratio = Times({"a": slow, "b": tuple(s / 2 for s in slow)}).ratio("a", "b")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))

"""Test the rounds: seeded, interleaved, and in blocks that are discarded under other load."""

from __future__ import annotations

import itertools
import math
import random
import re
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from bakeoff.suite.schema import Status
from bakeoff.suite.timing.machine_load import ReadTimes
from bakeoff.suite.timing.passes import Key, Missing, Pass
from bakeoff.suite.timing.rounds import TimingRun, Timings, has_trend, is_warm
from bakeoff.suite.timing.stopping import Limits
from tests.suite.timing.scripted import (
    OtherProcess,
    Players,
    ScriptedClock,
    idle_machine,
    key,
    steady,
)

LIMITS = Limits(
    seconds=4.0,
    most_seconds=6.0,
    seconds_each=0.0,
    least_rounds=10,
    most_half_width=0.1,
    cold_pass=0.0,
    least_sample=1e-3,
)


@pytest.fixture
def clock() -> ScriptedClock:
    return ScriptedClock()


def run_of(
    clock: ScriptedClock,
    *,
    limits: Limits = LIMITS,
    seed: int = 0,
    load: ReadTimes | None = None,
    **scripts: Callable[[int], float],
) -> tuple[Timings, Players]:
    players = Players(clock, scripts)
    read_times = load or idle_machine(clock)
    return TimingRun(players.passes, clock, limits, read_times, seed).run(), players


def rounds_of(order: list[str], number: int) -> list[tuple[str, ...]]:
    return [tuple(order[i : i + number]) for i in range(0, len(order), number)]


def test_every_candidate_runs_once_a_round_in_an_order_of_chance(clock: ScriptedClock) -> None:
    _, players = run_of(clock, a=steady(0.01), b=steady(0.02), c=steady(0.03))
    rounds = rounds_of(players.order, 3)
    assert all(sorted(held) == ["a", "b", "c"] for held in rounds)
    assert rounds[0] == ("a", "b", "c")  # the first calls
    assert len(set(rounds)) == 6
    assert players.prepared == players.cleared


def test_the_order_hangs_on_the_seed_alone() -> None:
    scripts = {name: steady(0.01) for name in "abcde"}
    orders = [run_of(ScriptedClock(), seed=seed, **scripts)[1].order for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_a_short_pass_is_repeated_until_the_sample_is_long_enough(clock: ScriptedClock) -> None:
    timings, players = run_of(clock, short=steady(0.3e-3), long=steady(0.01))
    last = "".join(name[0] for name in players.order[-40:])
    # at the border of two rounds the samples may be adjacent
    assert set(last.strip("s").split("l")) <= {"", "ssss", "ssssssss"}
    samples = timings.samples[key("short")]
    assert samples == pytest.approx([0.3e-3] * len(samples))


def test_a_short_pass_finds_its_own_caches(clock: ScriptedClock) -> None:
    """Check that the previous candidate's cache contents do not affect its time."""
    players = Players(clock, {"short": steady(0.001), "long": steady(0.03)})

    def seconds(so_manieth: int) -> float:
        return 0.015 if players.order[-1:] != ["short"] else 0.005

    players.scripts = {"short": seconds, "long": steady(0.03)}
    limits = replace(LIMITS, cold_pass=0.02)
    timings = TimingRun(players.passes, clock, limits, idle_machine(clock), 0).run()
    assert timings.samples[key("short")] == pytest.approx(
        [0.005] * len(timings.samples[key("short")])
    )
    assert players.order.count("long") == len(players.cleared) / 2  # it is not run twice


def test_a_short_sample_is_taken_again_where_the_device_was_slow(clock: ScriptedClock) -> None:
    """Check that the speed of the device comes from the clock, never from the sample."""
    passes = {}
    for slow_until in (0.0, math.inf):
        clock.slow_until = slow_until
        limits = replace(LIMITS, cold_pass=0.02)
        _, players = run_of(clock, limits=limits, short=steady(0.01), long=steady(0.05))
        passes[slow_until] = players.order.count("short") / players.order.count("long")
    assert 1.5 < passes[0.0] <= 2.0  # one unmeasured pass, one measured
    assert 3.0 < passes[math.inf] <= 4.0  # the sample is taken twice
    assert clock.num_waits > 0


def test_what_is_slow_at_first_does_not_count(clock: ScriptedClock) -> None:
    timings, _ = run_of(clock, a=lambda so_manieth: 100.0 if so_manieth < 2 else 0.02)
    assert max(timings.samples[key("a")]) == pytest.approx(0.02)
    assert timings.first_calls[key("a")] == 100.0
    assert timings.noise[key("a")] == ""


def test_it_ends_when_all_have_enough(clock: ScriptedClock) -> None:
    timings, _ = run_of(clock, a=steady(0.01), b=steady(0.02))
    assert 10 <= len(timings.samples[key("a")]) < 25
    assert timings.other_load == 0.0
    assert timings.num_disturbed == 0


def test_it_ends_at_the_limit_and_says_why_it_does_not_trust_itself(clock: ScriptedClock) -> None:
    timings, _ = run_of(clock, wild=lambda n: (0.05, 0.1)[n % 2], calm=steady(0.05))
    num = len(timings.samples[key("wild")])
    assert 45 <= num <= 54  # until a candidate that would stay noisy is given up
    assert re.fullmatch(
        rf"interval of the median ±\d\d\.\d %, over 10 %, after {num} rounds and 6\.?\d* s",
        timings.noise[key("wild")],
    )
    assert timings.noise[key("calm")] == ""


def test_few_long_rounds_may_take_longer(clock: ScriptedClock) -> None:
    timings, _ = run_of(clock, a=steady(1.0))
    assert len(timings.samples[key("a")]) == 10
    assert timings.noise[key("a")] == ""


def test_patience_ends(clock: ScriptedClock) -> None:
    limits = replace(LIMITS, patience=7.0)
    timings, _ = run_of(clock, limits=limits, a=steady(2.0))
    assert len(timings.samples[key("a")]) == 4
    assert timings.noise[key("a")] == "fewer than 10 rounds, after 4 rounds and 8 s"


def test_who_takes_all_the_time_sits_out(clock: ScriptedClock) -> None:
    limits = replace(LIMITS, cell_seconds=6.0)
    timings, _ = run_of(clock, limits=limits, slow=steady(2.0), fast=steady(0.1))
    assert len(timings.samples[key("slow")]) == 3
    assert timings.noise[key("slow")].startswith("fewer than 10 rounds, after 3 rounds")
    assert len(timings.samples[key("fast")]) >= 10
    assert timings.noise[key("fast")] == ""


def test_a_disturbed_block_is_set_aside_and_repeated(clock: ScriptedClock) -> None:
    def script(so_manieth: int) -> float:  # slower while the other process runs
        return 0.02 if not 1.0 <= clock.time < 1.8 else 0.03

    load = OtherProcess(clock, 1.0, 1.0, 1.8)
    limits = replace(LIMITS, least_rounds=60, least_seconds=1.0)
    timings, _ = run_of(clock, limits=limits, load=load, a=script)
    assert timings.samples[key("a")] == pytest.approx([0.02] * len(timings.samples[key("a")]))
    assert len(timings.samples[key("a")]) >= 60
    assert 20 <= timings.num_disturbed <= 60
    assert timings.noise[key("a")] == ""
    assert timings.other_load is not None
    assert 0.0 < timings.other_load < 1.0


def test_it_is_others_load_that_decides_not_the_time_measured(clock: ScriptedClock) -> None:
    """Slow rounds on an idle machine count; fast ones on a busy machine do not."""
    limits = replace(LIMITS, least_rounds=60)
    script = lambda n: 0.03 if 1.0 <= clock.time < 1.8 else 0.02  # noqa: E731
    timings, _ = run_of(clock, limits=limits, a=script)
    assert timings.num_disturbed == 0
    assert pytest.approx(0.03) in timings.samples[key("a")]
    clock = ScriptedClock()
    load = OtherProcess(clock, 1.0, 1.0, 1.8)
    timings, _ = run_of(clock, limits=limits, load=load, a=steady(0.02))
    assert timings.num_disturbed > 0


def test_on_a_busy_machine_all_rounds_are_used_and_noisy(clock: ScriptedClock) -> None:
    load = OtherProcess(clock, 0.48, 0.0, math.inf)
    timings, _ = run_of(clock, load=load, a=steady(0.02))
    assert timings.noise[key("a")] == "other processes took 48 % of a core"
    assert timings.num_disturbed == len(timings.samples[key("a")])
    assert clock.time < 6  # no waiting for an idle machine


@pytest.mark.parametrize("cores", [0.14, None])
def test_a_load_under_the_limit_or_unknown_disturbs_nobody(
    clock: ScriptedClock, cores: float | None
) -> None:
    load = (lambda: None) if cores is None else OtherProcess(clock, cores, 0.0, math.inf)
    timings, _ = run_of(clock, load=load, a=steady(0.02))
    assert timings.num_disturbed == 0
    assert timings.noise[key("a")] == ""
    assert timings.other_load is None if cores is None else timings.other_load > 0  # type: ignore[operator]


def test_a_gpu_is_disturbed_by_its_own_clock_only(clock: ScriptedClock) -> None:
    clock.suffers_from_load = False  # type: ignore[misc]
    load = OtherProcess(clock, 1.0, 0.0, math.inf)
    timings, _ = run_of(clock, load=load, a=steady(0.02))
    assert timings.num_disturbed == 0
    clock.slow = "the GPU ran at 500 of 1980 MHz (power cap)"
    timings, _ = run_of(clock, load=load, a=steady(0.02))
    assert timings.noise[key("a")] == "the GPU ran at 500 of 1980 MHz (power cap)"


def test_who_runs_out_of_memory_is_out_and_the_others_go_on(clock: ScriptedClock) -> None:
    def too_much() -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes")

    players = Players(clock, {"a": steady(0.02)})
    cleared: list[str] = []
    large = Pass(too_much, clear=lambda: cleared.append("large"))
    passes = {key("large"): large, **players.passes}
    timings = TimingRun(passes, clock, LIMITS, idle_machine(clock), 0).run()
    assert timings.missing[key("large")].status is Status.OUT_OF_MEMORY
    assert "can't allocate memory" in timings.missing[key("large")].reason
    assert set(timings.samples) == {key("a")}
    assert cleared == ["large"]  # its earlier allocation was already freed


class Large:
    """An object that a candidate holds."""


@pytest.mark.parametrize("so_manieth", [0, 1, 15])  # first call, warm-up, rounds
def test_who_runs_out_of_memory_gives_it_back_whenever_that_is(
    so_manieth: int, clock: ScriptedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check also failures in the first steps, which allocate persistent memory."""
    held, num_calls = Large(), itertools.count()
    seen, freed = weakref.ref(held), []

    def large(held: Large = held) -> None:
        clock.time += 0.01
        if next(num_calls) == so_manieth:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append(seen() is None))
    players = Players(clock, {"a": steady(0.02)})
    passes: dict[Key, Pass | Missing] = {key("large"): Pass(large), **players.passes}
    timing_run = TimingRun(passes, clock, LIMITS, idle_machine(clock), 0)
    del passes, large, held
    timings = timing_run.run()
    assert freed == [True]
    assert timings.missing[key("large")].status is Status.OUT_OF_MEMORY
    assert timings.missing[key("large")].reason.endswith("Tried to allocate 2.00 GiB.")
    assert set(timings.samples) == {key("a")}
    assert not timings.noise[key("a")]


def test_another_error_ends_the_trial(clock: ScriptedClock) -> None:
    def broken() -> None:
        raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        TimingRun({key("a"): Pass(broken)}, clock, LIMITS, idle_machine(clock), 0).run()


def test_with_nobody_there_it_ends_at_once(clock: ScriptedClock) -> None:
    gone = Missing(Status.SKIPPED, "no step form")
    timings = TimingRun({key("a"): gone}, clock, LIMITS, idle_machine(clock), 0).run()
    assert timings.missing == {key("a"): gone}
    assert timings.samples == {}


WARM_UP_LIMITS = Limits(warm_up_rounds=3, warm_up_seconds=0.3, most_warm_up_seconds=1.5)
LEVEL = [1.0, 1.02, 0.99, 1.01, 0.98, 1.0, 1.01, 0.99, 1.02, 1.0]
FALLING = [2.0 - 0.1 * i for i in range(10)]


@pytest.mark.parametrize(
    ("samples", "is_seen"),
    [
        (FALLING, True),
        (FALLING[::-1], True),  # slowing down, as a hot machine does
        (LEVEL, False),
        (LEVEL + FALLING, True),
        (FALLING + LEVEL, False),
        ([1.0 - 1e-4 * i for i in range(10)], False),  # too small to matter
        (FALLING[:9], False),  # too few
    ],
)
def test_a_trend_is_seen_in_the_last_ten(samples: list[float], is_seen: bool) -> None:
    assert has_trend(samples) is is_seen


def test_chance_looks_like_a_trend_in_fewer_than_1_of_100_cases() -> None:
    """Use the exact distribution of the number of inversions of ten values."""
    counts = {0: 1}
    for size in range(2, 11):
        longer: dict[int, int] = {}
        for (inversions, ways), more in itertools.product(counts.items(), range(size)):
            longer[inversions + more] = longer.get(inversions + more, 0) + ways
        counts = longer
    far = sum(ways for inversions, ways in counts.items() if abs(45 - 2 * inversions) > 28)
    assert sum(counts.values()) == math.factorial(10)
    assert 0.005 < far / math.factorial(10) < 0.01
    chance = random.Random(0)
    found = sum(has_trend([chance.gauss(1, 0.1) for _ in range(10)]) for _ in range(2000))
    assert 2 <= found <= 30


@pytest.mark.parametrize(
    ("samples", "num_rounds", "elapsed", "warm"),
    [
        ([LEVEL], 2, 1.0, False),  # too few rounds
        ([LEVEL], 11, 0.2, False),  # too short
        ([LEVEL], 11, 0.3, True),
        ([LEVEL, FALLING], 11, 0.3, False),
        ([LEVEL, FALLING], 11, 1.5, True),  # the limit
        ([LEVEL[:2]], 3, 1.0, False),  # too few to detect a trend
        ([LEVEL[:2]], 3, 1.5, True),
        ([LEVEL[:1]], 2, 60.0, False),  # at least three rounds are needed
    ],
)
def test_when_all_are_warm(
    samples: list[list[float]], num_rounds: int, elapsed: float, warm: bool
) -> None:
    assert is_warm(samples, num_rounds, elapsed, WARM_UP_LIMITS) is warm

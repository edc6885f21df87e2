"""Make a sweep of mixers alone like the `complexity` ablation, with all probes and controls."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import (
    BASELINE_AGAIN,
    BASELINE_SLOWED,
    INJECTED,
    MIXER_ALONE,
    About,
    ClaimSpec,
    DataSet,
    MetricSpec,
    MixerFacts,
    Provenance,
)

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
DIMS = (32, 64, 128, 256)
DIM, DIMS_LENGTH, NUM_PROCESSES = 64, 1024, 3
PLACE = Provenance(
    commit="0123456789abcdef0123456789abcdef01234567",
    device="AMD EPYC 7B13",
    num_threads=2,
    num_cpus=2.0,
    num_gpus=0.0,
    versions={"torch": "2.13.0", "python": "3.11.9"},
)
ATTENTION = ("n**2 * d", "1", "1")
SUBJECTS = {
    "baseline": ("attention", *ATTENTION),
    "kernel=materialised": ("attention", *ATTENTION),
    "mixer=lstm": ("lstm", "n * d**2", "n", "n"),
    "mixer=conv": ("conv", "k * n * d**2", "1", "n / k"),
    "mixer=dilated_conv": ("dilated_conv", "k * n * d**2", "1", "log2(n) / log2(k)"),
    "mixer=linformer": ("linformer", "n * k * d", "1", "1"),
    "mixer=performer": ("performer", "n * k * d", "1", "1"),
    "mixer=fnet": ("fnet", "n * d * (log2(n) + log2(d))", "1", "1"),
}
# Forward seconds for n tokens at width d: a minimum cost per call plus its growth.
SECONDS: dict[str, Callable[[float, float], float]] = {
    "baseline": lambda n, d: 60e-6 + 5e-11 * n * n * d + 2.2e-10 * n * d * d,
    "kernel=materialised": lambda n, d: 70e-6 + 1.6e-10 * n * n * d + 2.2e-10 * n * d * d,
    "mixer=lstm": lambda n, d: 40e-6 + 28e-6 * n + 5e-10 * n * d * d,
    "mixer=conv": lambda n, d: 45e-6 + 3.1e-10 * n * d * d,
    "mixer=dilated_conv": lambda n, d: 55e-6 + 4.1e-10 * n * d * d,
    "mixer=linformer": lambda n, d: 110e-6 + 2.9e-10 * n * d * d + 2e-10 * n * 32 * d,
    "mixer=performer": lambda n, d: 260e-6 + 4e-10 * n * d * d + 6e-10 * n * 64 * d,
    "mixer=fnet": lambda n, d: 30e-6 + 5e-10 * n * d * (math.log2(n) + math.log2(d)),
}
FLOPS: dict[str, Callable[[float, float], float]] = {
    "attention": lambda n, d: 4 * n * n * d + 8 * n * d * d,
    "lstm": lambda n, d: 16 * n * d * d,
    "conv": lambda n, d: 8 * n * d * d,
    "dilated_conv": lambda n, d: 8 * n * d * d,
    "linformer": lambda n, d: 8 * n * d * d + 8 * n * 32 * d,
    "performer": lambda n, d: 8 * n * d * d + 16 * n * 64 * d,
    "fnet": lambda n, d: 5 * n * d * (math.log2(n) + math.log2(d)),
}
THEORY: dict[str, Callable[[float, float], float]] = {
    "attention": lambda n, d: n * n * d,
    "lstm": lambda n, d: n * d * d,
    "conv": lambda n, d: 3 * n * d * d,
    "dilated_conv": lambda n, d: 3 * n * d * d,
    "linformer": lambda n, d: n * 32 * d,
    "performer": lambda n, d: n * 64 * d,
    "fnet": lambda n, d: n * d * (math.log2(n) + math.log2(d)),
}
PATHS: dict[str, Callable[[float], float]] = {
    "lstm": lambda n: n,
    "conv": lambda n: math.ceil(n / 2),
    "dilated_conv": lambda n: math.ceil(math.log2(n)),
}
NO_CAUSAL_FORM = {
    "mixer=fnet": "fnet cannot be causal, and a language_model must be",
    "mixer=linformer": "linformer cannot be causal, and a language_model must be",
}
NOWHERE = {"environment_id": "", "device": "", "commit": ""}
NO_STEP = {"mixer=fnet", "mixer=linformer", "mixer=conv", "mixer=dilated_conv"}
LOSSES = {
    "baseline": 0.0,
    "kernel=materialised": 0.0,
    "mixer=lstm": -0.03,
    "mixer=conv": 0.09,
    "mixer=dilated_conv": 0.05,
    "mixer=linformer": 0.02,
    "mixer=performer": 0.03,
    "mixer=fnet": 0.04,
}
BITS = MetricSpec(name="bits_per_character", unit="bit", better="lower")
ACCURACY = MetricSpec(name="accuracy", unit="1", better="higher")
TASKS = {"shakespeare_characters": BITS, "fashion_mnist_patches": ACCURACY}
TIMES = tuple(
    MetricSpec(name=f"{what}_seconds", unit="s", better="lower")
    for what in ("forward", "forward_backward", "decode_token")
)
MEMORY = (
    MetricSpec(name="forward_peak_bytes", unit="B", better="lower"),
    MetricSpec(name="forward_backward_peak_bytes", unit="B", better="lower"),
    MetricSpec(name="forward_formula_bytes", unit="B", better="none"),
)
COUNTS = (
    MetricSpec(name="forward_flops", unit="FLOP", better="lower"),
    MetricSpec(name="counted_flops", unit="FLOP", better="none"),
    MetricSpec(name="theory_operations", unit="1", better="none"),
)
STEPS = tuple(
    MetricSpec(name=name, unit="1", better="none" if name.startswith("theory") else "lower")
    for name in (
        "sequential_operations",
        "maximum_path_length",
        "theory_sequential_operations",
        "theory_maximum_path_length",
    )
)
STEP_TIMES = (
    *TIMES[:2],
    MetricSpec(name="training_step_seconds", unit="s", better="lower"),
)


def about(**changes: Any) -> About:
    fields: dict[str, Any] = {
        "ablation": "complexity",
        "scale": "quick",
        "question": "What does each mixer cost as sequences grow, and from which length is it "
        "faster?",
        "note": "Table 1 of Vaswani et al. 2017 (arXiv:1706.03762) by measurement.",
        "baseline": "baseline",
        "variants": tuple(SUBJECTS),
        "tasks": (*TASKS, MIXER_ALONE),
        "probes": (
            "quality",
            "parameters",
            "flops",
            "peak_memory",
            "step_time",
            "mixer_flops",
            "mixer_memory",
            "path_length",
            "mixer_time",
        ),
        "num_seeds": NUM_PROCESSES,
        "settings": {
            "dim": DIM,
            "depth": 2,
            "length": 64,
            "steps": 300,
            "batch": 16,
            "lengths": ", ".join(map(str, LENGTHS)),
            "dims": ", ".join(map(str, DIMS)),
        },
        "model": {
            "architecture": None,
            "mixer": "attention",
            "position": "sinusoidal",
            "heads": 4,
            "kernel": "fused",
        },
        "claim": ClaimSpec(
            statement="attention is a better language model than an LSTM at equal steps",
            metric="bits_per_character",
            a="baseline",
            b="mixer=lstm",
            by=0.02,
            source="Vaswani et al. 2017, section 4 argues it",
            task="shakespeare_characters",
        ),
        "metrics": {task: {"quality": (score,)} for task, score in TASKS.items()},
        "data_sets": {
            task: DataSet(title=task, licence="free", origin="here", sha256="0" * 64)
            for task in TASKS
        },
        "is_indicative": True,
        "regenerate": "bakeoff run complexity --scale quick",
        "provenances": {PLACE.environment_id: PLACE},
        "subjects": {
            variant: MixerFacts(
                mixer=mixer, time=time, sequential_operations=steps, maximum_path_length=path
            )
            for variant, (mixer, time, steps, path) in SUBJECTS.items()
        },
    }
    return About(**(fields | changes))


def sweep(*, random_seed: int = 7, place: Provenance = PLACE, pace: float = 1.0) -> Sweep:
    """Return the whole sweep; all times are multiplied by `pace`."""
    maker = _Maker(about(provenances={place.environment_id: place}), random_seed, place, pace)
    return Sweep(about=maker.about, results=results_frame(maker.rows()), curves=curves_frame([]))


@cache
def whole() -> Sweep:
    """Return the default sweep, made once; do not modify it."""
    return sweep()


class _Maker:
    """A maker of the rows of one machine."""

    def __init__(self, said: About, random_seed: int, place: Provenance, pace: float) -> None:
        self.about, self.place, self.pace = said, place, pace
        self.random = random.Random(random_seed)

    def rows(self) -> Iterator[dict[str, Any]]:
        for at, length, dim in _coordinates():
            for variant in SUBJECTS:
                yield from self._counts(variant, at, length, dim)
            for process in range(NUM_PROCESSES):
                yield from self._times(at, length, dim, process)
        for task in TASKS:
            for variant in SUBJECTS:
                yield from self._on_task(task, variant)

    def _row(
        self,
        variant: str,
        task: str,
        probe: str,
        spec: MetricSpec,
        number: float | None,
        **more: Any,
    ) -> dict[str, Any]:
        seed = more.pop("seed", 0)
        at = more.get("at", spec.at)
        return {
            "ablation": self.about.ablation,
            "scale": self.about.scale,
            "variant": variant,
            "seed": seed,
            "task": task,
            "probe": probe,
            "metric": spec.name,
            "at": at,
            "value": number,
            "unit": spec.unit,
            "better": spec.better,
            "spread_low": None,
            "spread_high": None,
            "status": "ok",
            "reason": "",
            "trial_id": f"{probe}-{task}-{at}-{seed}",
            "environment_id": self.place.environment_id,
            "device": self.place.device,
            "commit": self.place.commit,
            **more,
        }

    def _counts(self, variant: str, at: str, n: int, d: int) -> Iterator[dict[str, Any]]:
        mixer = SUBJECTS[variant][0]
        flops = FLOPS[mixer](n, d)
        sizes = self._bytes(variant, n, d)
        found = zip(COUNTS, (flops, flops, THEORY[mixer](n, d)), strict=True)
        for spec, value in [*found, *zip(MEMORY, sizes, strict=True)]:
            probe = "mixer_flops" if spec in COUNTS else "mixer_memory"
            yield self._row(variant, MIXER_ALONE, probe, spec, value, at=at, trial_id=f"{variant}")
        if at.startswith("length=") and n <= 512:
            path = PATHS.get(mixer, lambda n: 1.0)(n)
            steps = float(n) if mixer == "lstm" else 1.0
            for spec, value in zip(STEPS, (steps, path, steps, path), strict=True):
                yield self._row(variant, MIXER_ALONE, "path_length", spec, value, at=at)

    @staticmethod
    def _bytes(variant: str, n: int, d: int) -> tuple[float, float, float]:
        scores = 4 * 4 * n * n if variant == "kernel=materialised" else 0
        forward = 4.0 * n * d * 5 + 2 * scores
        return forward, 2.6 * forward, forward

    def _times(self, at: str, n: int, d: int, process: int) -> Iterator[dict[str, Any]]:
        here = {"at": at, "seed": process}
        for variant, seconds in SECONDS.items():
            forward = seconds(n, d) * self.pace
            values = (forward, 2.8 * forward, 1.3 * seconds(1, d) * (1 + n / 8000) * self.pace)
            for spec, value in zip(TIMES, values, strict=True):
                skipped = spec.name == "decode_token_seconds" and variant in NO_STEP
                more = self._skipped(variant) if skipped else self._noise(variant, n, process)
                number = None if skipped else value * self.random.gauss(1, 0.006)
                ends = (0.994 * number, 1.006 * number) if number else (None, None)
                spread = dict(zip(("spread_low", "spread_high"), ends, strict=True))
                more = {**here, **spread, **more}
                yield self._row(variant, MIXER_ALONE, "mixer_time", spec, number, **more)
            yield from self._of_itself(variant, MIXER_ALONE, "mixer_time", here, 2.8 * forward)
        yield from self._controls("mixer_time", MIXER_ALONE, here, n)

    @staticmethod
    def _skipped(variant: str) -> dict[str, Any]:
        return {"status": "skipped", "reason": f"{variant.partition('=')[2]} has no step form"}

    @staticmethod
    def _noise(variant: str, n: int, process: int) -> dict[str, Any]:
        if (variant, n) != ("mixer=performer", 128) or process == 0:
            return {}  # noisy in most processes
        reason = "interval of the median ±4.1 %, over 2 %, after 30 rounds and 8 s"
        return {"status": "noisy", "reason": reason}

    def _of_itself(
        self, variant: str, task: str, probe: str, here: dict[str, Any], seconds: float
    ) -> Iterator[dict[str, Any]]:
        numbers = {"num_samples": 40.0, "mild_outliers": 2.0, "severe_outliers": 1.0}
        for name, value in numbers.items():
            yield self._row(variant, task, probe, _pure(name), value, **here)
        first = MetricSpec(name="first_call_seconds", unit="s", better="none")
        yield self._row(variant, task, probe, first, 0.02 + 3 * seconds, **here)

    def _controls(
        self, probe: str, task: str, here: dict[str, Any], n: int
    ) -> Iterator[dict[str, Any]]:
        for name, truth in ((BASELINE_AGAIN, 1.0), (BASELINE_SLOWED, INJECTED)):
            ratio = truth * self.random.gauss(1, 0.003)
            spread = {"spread_low": ratio - 0.008, "spread_high": ratio + 0.008}
            yield self._row("baseline", task, probe, _pure(name), ratio, **here, **spread)
        for name, value in (("other_load", 0.012 * self.random.random()), ("num_disturbed", 1.0)):
            yield self._row("baseline", task, probe, _pure(name), value, **here)
        if probe == "mixer_time":
            yield from self._kernels(here, n)

    def _kernels(self, here: dict[str, Any], n: int) -> Iterator[dict[str, Any]]:
        growths = {"linear": n, "linearithmic": n * math.log2(n), "quadratic": n * n / 64}
        for name, work in growths.items():
            spec = MetricSpec(name=f"{name}_kernel_seconds", unit="s", better="none")
            value = 2e-7 * work * self.random.gauss(1, 0.004) * self.pace
            spread = {"spread_low": value * 0.995, "spread_high": value * 1.005}
            yield self._row("baseline", MIXER_ALONE, "mixer_time", spec, value, **here, **spread)
        for name, unit, peak in (
            ("matrix_peak_flops_per_second", "FLOP/s", 118e9),
            ("copy_peak_bytes_per_second", "B/s", 11.2e9),
        ):
            spec = MetricSpec(name=name, unit=unit, better="none")
            value = peak * self.random.gauss(1, 0.01)
            yield self._row("baseline", MIXER_ALONE, "mixer_time", spec, value, **here)

    def _on_task(self, task: str, variant: str) -> Iterator[dict[str, Any]]:
        reason = NO_CAUSAL_FORM.get(variant, "") if TASKS[task] is BITS else ""
        fate = {"status": "skipped", "reason": reason, **NOWHERE} if reason else {}
        for probe, seed, spec, value in self._cells(task, variant):
            number = None if reason else value
            yield self._row(
                variant,
                task,
                probe,
                spec,
                number,
                seed=seed,
                **fate,
                trial_id=f"{probe}-{variant}-{task}-{seed}",
            )
        for process in range(NUM_PROCESSES):
            here = {"seed": process, "at": "length=64"}
            # an impossible cell has a row for every metric of its probe, including controls
            if reason:
                spec = _pure(BASELINE_AGAIN)
                yield self._row(
                    variant,
                    task,
                    "step_time",
                    spec,
                    None,
                    **here,
                    **fate,
                    trial_id=f"{variant}-{process}",
                )
                continue
            yield from self._of_itself(variant, task, "step_time", here, 0.004)
            if variant == "baseline":
                yield from self._controls("step_time", task, here, 64)

    def _cells(self, task: str, variant: str) -> Iterator[tuple[str, int, MetricSpec, float]]:
        mixer = SUBJECTS[variant][0]
        for seed in range(NUM_PROCESSES):
            loss = LOSSES[variant] + 0.01 * seed + self.random.gauss(0, 0.004)
            yield "quality", seed, TASKS[task], (2.4 + loss) if TASKS[task] is BITS else 0.8 - loss
        sizes = MetricSpec(name="num_parameters", unit="1", better="none")
        yield "parameters", 0, sizes, 107_264.0
        at = "length=64"
        flops = MetricSpec(name="forward_flops", unit="FLOP", better="lower", at=at)
        yield "flops", 0, flops, 2 * FLOPS[mixer](64, DIM)
        peak = MetricSpec(name="peak_memory_bytes", unit="B", better="lower", at=at)
        yield "peak_memory", 0, peak, 16 * self._bytes(variant, 64, DIM)[1]
        for process in range(NUM_PROCESSES):
            forward = 16 * SECONDS[variant](64, DIM) * self.pace * self.random.gauss(1, 0.006)
            for factor, spec in zip((1.0, 2.8, 3.1), STEP_TIMES, strict=True):
                timed = MetricSpec(name=spec.name, unit="s", better="lower", at=at)
                yield "step_time", process, timed, factor * forward


def _coordinates() -> Iterator[tuple[str, int, int]]:
    for length in LENGTHS:
        yield f"length={length}", length, DIM
    for dim in DIMS:
        yield f"dim={dim}", DIMS_LENGTH, dim


def _pure(name: str) -> MetricSpec:
    return MetricSpec(name=name, unit="1", better="none")

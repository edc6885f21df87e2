"""Make sweeps with metrics along a number, in the forms that ablations have."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import About, ClaimSpec, MetricSpec
from tests.reports import conftest as synthetic

LENGTHS = (256, 512, 1024)
POSITIONS = ("none", "sinusoidal", "learned", "shaw", "t5", "rope", "alibi")
MIXERS = ("attention", "conv", "gated_conv", "lstm", "linear_transformer")
DIMS = (16, 64, 128)
PAIRS = (4, 8)
DISTANCES = (1, 2, 4, 8, 16, 32, 64, 127)
BITS = MetricSpec(name="bits_per_character", unit="bit", better="lower")
ACCURACY = MetricSpec(name="accuracy", unit="1", better="higher")
OF_SOFTMAX = {
    "initial_attention_entropy": "none",
    "trained_attention_entropy": "none",
    "initial_score_gradient": "higher",
    "trained_score_gradient": "higher",
}


def positions() -> Sweep:
    """Return seven encodings, trained at 128 tokens, tested at more; one diverged at one length."""
    labels = ["baseline", *(f"position={p}" for p in POSITIONS if p != "sinusoidal")]
    said = _about(
        "positions",
        labels,
        ("shakespeare_characters",),
        {"quality": [BITS]},
        settings={"length": 128, "steps": 300, "batch": 8},
    )
    rng = random.Random(1)
    rows = []
    for number, label in enumerate(labels):
        for seed in range(3):
            for at, length in [("", 128), *((f"length={n}", n) for n in LENGTHS)]:
                worse = 0.1 * number * math.log2(length / 128) * (label != "position=alibi")
                value = 2.3 + 0.01 * number + worse + rng.gauss(0, 0.02)
                rows.append(_row(said, label, "quality", BITS, at, seed, value))
    return Sweep(said, results_frame(rows), curves_frame([]))


def recall() -> Sweep:
    """Return mixers by width, with accuracy by number of pairs; one variant could not run."""
    labels = [f"mixer={mixer}, dim={dim}" for mixer in MIXERS for dim in DIMS]
    said = _about(
        "recall",
        labels,
        ("mqar_small",),
        {"quality": [ACCURACY]},
        baseline="mixer=attention, dim=64",
    )
    rng = random.Random(2)
    rows = []
    for label in labels:
        mixer, dim = label.split(", ")[0][6:], int(label.rpartition("=")[2])
        for seed in range(3):
            for at, pairs in [("", 6), *((f"pairs={n}", n) for n in PAIRS)]:
                reach = 1.0 if mixer == "attention" else dim / 160 * 4 / pairs
                value = min(1.0, max(0.05, reach + rng.gauss(0, 0.03)))
                made = _row(said, label, "quality", ACCURACY, at, seed, value)
                if label == "mixer=lstm, dim=16":
                    made |= {"value": None, "status": "skipped", "reason": "it cannot run"}
                rows.append(made)
    return Sweep(said, results_frame(rows), curves_frame([]))


def asked() -> Sweep:
    """Return two models that act: one gets the return asked for, one ignores it."""
    returns = (-0.1, 0.25, 0.5, 0.9)
    specs = [
        MetricSpec(name="return_got", unit="1", better="none" if at else "higher", at=at)
        for at in ("", *(f"asked={each:g}" for each in returns))
    ]
    said = _about(
        "asked",
        ["baseline", "has_returns=false"],
        ("corridor_mixed",),
        {"quality": specs},
    )
    rng = random.Random(4)
    rows = [
        _row(said, label, "quality", spec, spec.at, seed, value + rng.gauss(0, 0.02))
        for label in said.variants
        for seed in range(3)
        for spec, wanted in zip(specs, (returns[-1], *returns), strict=True)
        for value in [wanted if label == "baseline" else 0.3]
    ]
    return Sweep(said, results_frame(rows), curves_frame([]))


def gradients() -> Sweep:
    """Return gradients by distance, before and after training; a convolution reaches 16 tokens."""
    falls = {"rnn": 0.2, "gru": 0.05, "lstm": 0.04, "conv": 0.02, "attention": 0.001}
    labels = [f"mixer={mixer}" for mixer in falls]
    specs = [
        MetricSpec(name=f"{when}_gradient_log10", unit="log10", better="higher", at=f"distance={d}")
        for when in ("initial", "trained")
        for d in DISTANCES
    ]
    said = _about(
        "gradients",
        labels,
        ("shakespeare_characters",),
        {"quality": [BITS], "gradient_by_distance": specs},
        baseline="mixer=rnn",
    )
    rng = random.Random(3)
    rows = []
    for label, fall in zip(labels, falls.values(), strict=True):
        for seed in range(3):
            value = 2.4 + rng.gauss(0, 0.02)
            rows.append(_row(said, label, "quality", BITS, "", seed, value))
            for spec in specs:
                distance = int(spec.at.rpartition("=")[2])
                value = -1 - fall * distance * (1 if "initial" in spec.name else 0.6)
                value = -37.93 if "conv" in label and distance > 16 else value + rng.gauss(0, 0.1)
                probe = "gradient_by_distance"
                rows.append(_row(said, label, probe, spec, spec.at, seed, value))
    return Sweep(said, results_frame(rows), curves_frame([]))


def scaling() -> Sweep:
    """Return entropy and score gradients by d_k, alone and crossed with another axis."""
    others = ("", "scale=none", "scale=1/d", "score=additive", "temperature=0.5", "temperature=2.0")
    labels = [
        ", ".join(filter(None, [f"key_dim={size}", other]))
        for size in (8, 64, 512)
        for other in others
    ]
    specs = [MetricSpec(name=n, unit="1", better=b) for n, b in OF_SOFTMAX.items()]  # type: ignore[arg-type]
    said = _about(
        "scaling",
        labels,
        ("shakespeare_characters",),
        {"quality": [BITS], "softmax": specs},
        baseline="key_dim=64",
        model={
            "mixer": "attention",
            "scale": "1/sqrt(d)",
            "score": "dot",
            "temperature": 1.0,
            "key_dim": 64,
        },
    )
    rng = random.Random(4)
    rows = []
    for label in labels:
        size = int(label.partition(", ")[0][8:])
        sharp = size if "scale=none" in label else 4
        for seed in range(3):
            value = 2.4 + 0.01 * math.log(sharp) + rng.gauss(0, 0.01)
            rows.append(_row(said, label, "quality", BITS, "", seed, value))
            for spec in specs:
                value = 0.98 / math.sqrt(sharp / 4) if "entropy" in spec.name else 0.3 / sharp**2
                value *= rng.uniform(0.9, 1.1) * (0.8 if "trained" in spec.name else 1)
                rows.append(_row(said, label, "softmax", spec, "", seed, value))
    return Sweep(said, results_frame(rows), curves_frame([]))


def every() -> Iterator[Sweep]:
    """Yield each sweep."""
    for make in (positions, recall, gradients, scaling):
        yield make()


def _about(
    name: str,
    labels: Sequence[str],
    tasks: tuple[str, ...],
    metrics: dict[str, list[MetricSpec]],
    **changes: Any,
) -> About:
    """Return the synthetic `About`, changed to this ablation."""
    first = metrics["quality"][0]
    claim = ClaimSpec(
        statement="the baseline is better",
        metric=first.name,
        a=changes.get("baseline", labels[0]),
        b=labels[1],
        by=0.0,
        source="",
        task=tasks[0],
    )
    fields: dict[str, Any] = {
        "ablation": name,
        "variants": tuple(labels),
        "baseline": labels[0],
        "tasks": tasks,
        "probes": tuple(metrics),
        "claim": claim,
        "question": f"What of {name}?",
        "metrics": {task: {p: tuple(some) for p, some in metrics.items()} for task in tasks},
        "data_sets": {},
    }
    return synthetic.about(**(fields | changes))


def _row(
    said: About,
    label: str,
    probe: str,
    spec: MetricSpec,
    at: str,
    seed: int,
    value: float,
) -> dict[str, Any]:
    return synthetic.row(said, label, said.tasks[0], probe, spec, seed=seed, value=value, at=at)

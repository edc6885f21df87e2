"""Make a sweep of encoder-decoders with scores by length, texts and alignments."""

from __future__ import annotations

import base64
import random
from typing import Any

import numpy as np

from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import About, MetricSpec, Sample
from tests.reports import conftest as synthetic

TASK = "bible_en_de"
VARIANTS = ("baseline", "architecture=attentive_seq2seq", "architecture=conv_seq2seq", "depth=1")
COUNTS = {"": 1000, "words=10": 123, "words=20": 412, "words=30": 301, "words=40": 164}
TITLES = {
    "words": "words of the source",
    "words=10": "1 to 10",
    "words=20": "11 to 20",
    "words=30": "21 to 30",
    "words=40": "over 30",
}
BLEU = MetricSpec(name="bleu", unit="BLEU", better="higher")
WRITTEN = MetricSpec(name="written_bleu", unit="BLEU", better="higher")
SENTENCES = MetricSpec(name="num_sentences", unit="sentences", better="none")
CHRF = MetricSpec(name="written_chrf", unit="chrF", better="higher")
SOURCE = (
    " The",
    " fat",
    " of",
    " the",
    " sin",
    "-",
    "off",
    "ering",
    " shall",
    " he",
    " burn",
    " on",
    " the",
    " al",
    "tar",
    ".",
)
TARGET = (
    " Und",
    " das",
    " Fett",
    " des",
    " S",
    "ünd",
    "opf",
    "ers",
    " soll",
    " er",
    " auf",
    " dem",
    " Al",
    "tar",
    " räu",
    "chern",
    ".",
    "(end)",
)


def about(**changes: Any) -> About:
    metrics = {"quality": (BLEU,), "written_scores": (WRITTEN, SENTENCES, CHRF)}
    fields: dict[str, Any] = {
        "ablation": "translation",
        "question": "Which encoder-decoder translates best?",
        "baseline": "baseline",
        "variants": VARIANTS,
        "tasks": (TASK,),
        "probes": ("quality", "written_scores"),
        "claim": None,
        "metrics": {TASK: metrics},
        "data_sets": {},
        "model": {"architecture": "translator", "mixer": "attention"},
        "part_titles": {TASK: TITLES},
        "samples": {TASK: {v: (*texts(v), alignment(i)) for i, v in enumerate(VARIANTS)}},
    }
    return synthetic.about(**(fields | changes))


def alignment(seed: int, rows: Any = TARGET, columns: Any = SOURCE) -> Sample:
    """Return a diagonal alignment that is more blurred for higher seeds."""
    centre = np.arange(len(rows))[:, None] * (len(columns) - 1) / (len(rows) - 1)
    weights = np.exp(-(np.abs(centre - np.arange(len(columns))) ** 2) / (0.2 + seed))
    weights /= weights.sum(axis=1, keepdims=True)
    top = float(weights.max())
    levels = np.round(weights / top * 255).astype(np.uint8).tobytes()
    return Sample(
        kind="alignment",
        title="alignment",
        num_rows=len(rows),
        num_columns=len(columns),
        levels=base64.b64encode(levels).decode(),
        high=top,
        row_words=rows,
        column_words=columns,
    )


def texts(variant: str) -> list[Sample]:
    """Return ten translations of increasing length."""
    source = "In the beginning God created the heavens and the earth"
    reference = "Im Anfang schuf Gott die Himmel und die Erde"
    return [
        Sample(
            kind="translation",
            title=f"{percent} %",
            text=", ".join(["Und Gott sprach zu dem Volke"] * (1 + percent // 20)),
            source=" ".join([source] * (1 + percent // 20)),
            reference=reference,
            score=30 + percent / 10 + len(variant) / 7,
        )
        for percent in range(5, 100, 10)
    ]


def sweep(is_same: bool = True, **changes: Any) -> Sweep:
    """Return three seeds per variant; `is_same` makes `bleu` and `written_bleu` agree."""
    said, rng, rows = about(**changes), random.Random(1), []

    def row(
        variant: str, probe: str, spec: MetricSpec, at: str, seed: int, value: float, **more: Any
    ) -> None:
        named = MetricSpec(name=spec.name, unit=spec.unit, better=spec.better, at=at)
        made = synthetic.row(said, variant, TASK, probe, named, seed=seed, value=value)
        rows.append({**made, "trial_id": f"{made['trial_id']}-{at}", **more})

    for number, variant in enumerate(said.variants):
        for seed in range(3):
            for place, (at, count) in enumerate(COUNTS.items()):
                value = 24.0 - 2 * number - 1.5 * place + rng.gauss(0, 0.6)
                shown = value if is_same else value + 1
                row(variant, "quality", BLEU, at, seed, value)
                ends = {"spread_low": shown - 2, "spread_high": shown + 2}
                row(variant, "written_scores", WRITTEN, at, seed, shown, **ends)
                row(variant, "written_scores", SENTENCES, at, seed, count)
            row(variant, "written_scores", CHRF, "", seed, 40.0 - number + rng.gauss(0, 0.5))
    return Sweep(said, results_frame(rows), curves_frame([]))

"""Check that our CIDEr-D and ROUGE-L equal pycocoevalcap's, whose class `Cider` computes CIDEr-D.

Its tokeniser, METEOR and SPICE, which need Java, are not used. The tests need the public packages
of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from bakeoff.suite.tasks.caption_metrics import CaptionMetric, CiderD, RougeL

pytestmark = pytest.mark.parity

WORDS = ["a", "a", "an", "red", "green", "dog", "cat", "key", "left", "of", "above", "house"]
Pairs = list[tuple[str, str]]


def drawn(seed: int, most: int, least: int = 1, count: int = 300) -> Pairs:
    """Draw pairs of an output, which keeps some of the reference's words, and that reference."""
    chance = random.Random(seed)
    pairs = []
    for _ in range(count):
        asked = chance.choices(WORDS, k=chance.randint(1, most))
        kept = [word for word in asked if chance.random() < 0.7]
        added = chance.choices([*WORDS, "unseen"], k=chance.randint(least, 3))
        pairs.append((" ".join(kept + added if chance.random() < 0.5 else added + kept), asked))
    return [(written, " ".join(asked)) for written, asked in pairs]


CORPORA = {
    "captions": drawn(0, most=12),
    "names": drawn(1, most=3),
    "some empty": [*drawn(2, most=2, least=0), ("", "a dog")],
    "long": drawn(3, most=60, count=40),
    "all alike": [("a red dog on a mat", "a red dog on a mat")] * 5,
    "one": [("a red dog", "a red dog")],
}


def _held_against(theirs: Any, ours: CaptionMetric, pairs: Pairs) -> None:
    names = range(len(pairs))
    mean, each = theirs.compute_score(
        {name: [pairs[name][1]] for name in names}, {name: [pairs[name][0]] for name in names}
    )
    found = [ours.score(written.split(), asked.split()) for written, asked in pairs]
    assert found == pytest.approx(each.tolist(), abs=1e-9)
    assert sum(found) / len(found) == pytest.approx(mean, abs=1e-9)


def _cider(pairs: Pairs) -> tuple[Any, CaptionMetric]:
    from pycocoevalcap.cider.cider import Cider

    return Cider(), CiderD(references=lambda: [(asked,) for _, asked in pairs])


def _rouge(pairs: Pairs) -> tuple[Any, CaptionMetric]:
    from pycocoevalcap.rouge.rouge import Rouge

    return Rouge(), RougeL()


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("metric", [_cider, _rouge])
def test_every_sentence_has_the_same_score(
    metric: Callable[[Pairs], tuple[Any, CaptionMetric]], corpus: str
) -> None:
    _held_against(*metric(CORPORA[corpus]), CORPORA[corpus])


@pytest.mark.parametrize("kind", ["Cider", "Rouge"])
def test_every_sentence_with_several_references_has_the_same_score(kind: str) -> None:
    theirs: Any = import_module(f"pycocoevalcap.{kind.lower()}.{kind.lower()}")
    asked = [
        tuple(reference for _, reference in drawn(seed, most=9, count=1 + seed % 5))
        for seed in range(100)
    ]
    written = [drawn(1_000 + seed, most=9, count=1)[0][0] for seed in range(100)]
    ours = {"Cider": CiderD(references=lambda: asked), "Rouge": RougeL()}[kind]
    mean, each = getattr(theirs, kind)().compute_score(
        {name: [*references] for name, references in enumerate(asked)},
        {name: [sentence] for name, sentence in enumerate(written)},
    )
    found = [
        ours.score(one.split(), *(reference.split() for reference in references))
        for one, references in zip(written, asked, strict=True)
    ]
    assert found == pytest.approx(each.tolist(), abs=1e-9)
    assert sum(found) / len(found) == pytest.approx(mean, abs=1e-9)

"""Test the share of hidden tokens, their replacements, and that texts are independent."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bakeoff.suite.tasks.data_order import RandomStream, Whole
from bakeoff.suite.tasks.pretraining.masking import Chosen, Masking

MASK, OTHERS = 2, range(5, 105)


def hidden(
    masking: Masking, texts: Whole, may_hide: Chosen | None = None, stream: int = 0
) -> tuple[Whole, Chosen]:
    allowed = np.ones(texts.shape, dtype=bool) if may_hide is None else may_hide
    return masking.hide(RandomStream(3, stream), texts, allowed, mask=MASK, others=OTHERS)


def texts(rows: int, time: int) -> Whole:
    return RandomStream(1, 0).integers(rows, time, low=OTHERS.start, high=OTHERS.stop)


@pytest.mark.parametrize("share", [0.05, 0.15, 0.4])
def test_of_each_text_the_share_is_asked_for(share: float) -> None:
    _, asked = hidden(Masking(share=share), texts(50, 100))
    assert (asked.sum(axis=1) == round(100 * share)).all()


def test_every_place_is_as_likely_as_any_other() -> None:
    """Bound a share of 15 % over 4,000 texts, with a standard deviation of 0.56 points."""
    _, asked = hidden(Masking(), texts(4_000, 20))
    assert np.abs(asked.mean(axis=0) - 0.15).max() < 0.025


def test_80_10_10_of_what_is_asked_for() -> None:
    """Count 60,000 hidden symbols; one random replacement in 100 equals the original."""
    original = texts(4_000, 100)
    found, asked = hidden(Masking(), original)
    masked = (found == MASK)[asked].mean()
    same = (found == original)[asked].mean()
    assert abs(masked - 0.8) < 0.006
    assert abs(same - (0.1 + 0.1 / 100)) < 0.005
    assert (found == original)[~asked].all()
    others = found[asked & (found != MASK) & (found != original)]
    counts = np.bincount(others, minlength=OTHERS.stop)[OTHERS.start :]
    assert counts.sum() > 5_000
    assert counts.min() > 0.4 * counts.mean()
    assert counts.max() < 1.8 * counts.mean()


def test_all_masks_where_all_is_replaced() -> None:
    found, asked = hidden(Masking(replaced=1.0, random=0.0), texts(20, 60))
    assert (found[asked] == MASK).all()
    assert (found == MASK).sum() == asked.sum()


@pytest.mark.parametrize("span", [1, 2, 3, 5])
def test_spans_are_whole_do_not_overlap_and_are_hidden_in_one_way(span: int) -> None:
    original = texts(500, 61)
    masking = Masking(share=0.3, span=span)
    found, asked = hidden(masking, original)
    wanted = 0.3 * 61 / span
    assert set(asked.sum(axis=1) // span) == {math.floor(wanted), math.ceil(wanted)}
    assert asked.mean() == pytest.approx(0.3, rel=0.02)
    stays = []
    for row, kept, text in zip(asked, original, found, strict=True):
        places = np.flatnonzero(row)
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        assert all(len(run) % span == 0 for run in runs)
        spans = places.reshape(-1, span)
        is_masked = text[spans] == MASK
        assert (is_masked.all(axis=1) | ~is_masked.any(axis=1)).all()
        stays += (text[spans] == kept[spans]).all(axis=1).tolist()
    assert 0.08 < np.mean(stays) < 0.13


def test_every_place_of_a_span_is_as_likely_in_the_middle() -> None:
    """Check that all arrangements are equally likely, so fewer cover the ends."""
    _, asked = hidden(Masking(share=0.2, span=3), texts(6_000, 30))
    shares = asked.mean(axis=0)
    assert np.abs(shares[3:-3] - shares[3:-3].mean()).max() < 0.03
    assert shares[0] < shares[10]
    assert abs(shares[0] - shares[-1]) < 0.02


def test_what_may_not_be_hidden_stays_and_is_not_counted() -> None:
    original = texts(300, 40)
    allowed = RandomStream(2, 0).uniform(300, 40) < 0.5
    found, asked = hidden(Masking(share=0.4), original, allowed)
    assert not (asked & ~allowed).any()
    assert (found == original)[~allowed].all()
    wanted = 0.4 * allowed.sum(axis=1)
    assert (np.abs(asked.sum(axis=1) - wanted) < 1).all()


@pytest.mark.parametrize("num_words", [0, 1, 3, 11, 20, 23, 31])
@pytest.mark.parametrize(("share", "span"), [(0.05, 1), (0.15, 1), (0.15, 3), (0.4, 1)])
def test_the_number_is_rounded_by_chance_and_right_in_the_mean(
    num_words: int, share: float, span: int
) -> None:
    """Check each mean over 6,000 texts of one length, with a standard deviation of 0.02."""
    masking = Masking(share=share, span=span)
    allowed = np.arange(32)[None, :].repeat(6_000, axis=0) < num_words
    _, asked = hidden(masking, texts(6_000, 32), allowed)
    counts = asked.sum(axis=1)
    wanted = share * num_words / span if num_words >= span else 0
    assert counts.mean() == pytest.approx(wanted * span, abs=0.03 * span)
    assert counts.max() <= masking.most_spans(num_words) * span
    assert counts.min() >= math.floor(wanted) * span


def test_all_of_a_text_can_be_hidden() -> None:
    _, asked = hidden(Masking(share=1.0), texts(3, 9))
    assert asked.all()


def test_what_is_hidden_of_a_text_does_not_depend_on_those_behind_it() -> None:
    original = texts(8, 30)
    whole, asked = hidden(Masking(), original)
    first, asked_first = hidden(Masking(), original[:3])
    assert (whole[:3] == first).all()
    assert (asked[:3] == asked_first).all()
    other, _ = hidden(Masking(), original, stream=1)
    assert (other != whole).any()

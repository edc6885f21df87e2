"""Test that names of variants in sentences read as a person would say them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bakeoff.reports.results.spoken_names import shown_name, shown_names, spoken_name, spoken_pair
from tests.reports import conftest as synthetic

LSTM = "model=lstm (heads 1; window 16)"
SMALL, LARGE = (f"model=gated_delta (heads {n}; window 16)" for n in (4, 16))


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("heads=1", "1 head"),
        ("heads=16", "16 heads"),
        ("dim=64", "width 64"),
        ("num_training_examples=9000", "9,000 training examples"),
        ("dropout=0.1", "dropout 0.1"),
        ("has_returns=false", "without returns"),
        ("delta=true", "with delta"),
        ("is_source_reversed=false", "not source reversed"),
        ("decay=none", "no decay"),
        ("layer_scale=None", "no layer scale"),
        ("num_training_examples=None", "all training examples"),
        ("mixer=linear_transformer", "linear Transformer"),
        ("optimizer=sgd", "optimizer SGD"),
        ("mixer=lstm, dim=64", "LSTM, width 64"),
    ],
)
def test_a_label_becomes_words(label: str, said: str) -> None:
    about = synthetic.about(variants=("baseline", label), baseline="baseline", claim=None)
    assert spoken_name(about, label) == said


def test_a_model_keeps_only_the_knobs_that_tell_it_apart() -> None:
    about = synthetic.about(variants=(LSTM, SMALL, LARGE), baseline=LSTM, claim=None)
    assert [spoken_name(about, variant) for variant in about.variants] == [
        "LSTM",
        "gated delta (heads 4)",
        "gated delta (heads 16)",
    ]


def test_a_pair_is_named_by_what_differs() -> None:
    a, b = "scale=none, key_dim=512", "scale=inverse, key_dim=512"
    about = synthetic.about(variants=(a, b, "scale=none, key_dim=64"), baseline=b, claim=None)
    assert spoken_pair(about, a, b) == ("no scale", "scale inverse")


def test_an_ablation_may_name_values_and_its_baseline() -> None:
    words = {"decay=none": "without decay", "decay=head": "one decay a head", "baseline": "all"}
    about = synthetic.about(variants=("baseline", "decay=none"), baseline="baseline", claim=None)
    about = replace(about, words=words)
    assert [spoken_name(about, variant) for variant in about.variants] == ["all", "without decay"]


def test_names_that_two_variants_share_are_their_labels() -> None:
    few = {"heads=1": "few heads", "heads=2": "few heads"}
    names = shown_names(replace(synthetic.about(), words=few))
    assert (names["heads=1"], names["heads=2"], names["heads=4"]) == (
        "heads=1",
        "heads=2",
        "4 heads",
    )
    assert len({*names.values()}) == len(names)


def test_a_label_of_a_paper_is_read_and_a_floor_stays_as_it_is() -> None:
    about = synthetic.about()
    assert shown_name(about, "heads=32") == "32 heads"
    assert shown_name(about, "mixer=linear_transformer, heads=1") == "linear Transformer, 1 head"
    assert shown_name(about, "guess among shown") == "guess among shown"

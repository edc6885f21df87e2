"""Does the baseline say what it is, where its label does not?"""

from __future__ import annotations

from types import ModuleType

from reports.results.variant_labels import shown_name, what_baseline_is
from tests.reports import mixers_alone


def test_the_mixer_and_the_axes_that_are_varied() -> None:
    said = mixers_alone.about()
    assert what_baseline_is(said) == "attention, kernel=fused"
    assert shown_name(said, "baseline") == "baseline (attention, kernel=fused)"
    assert shown_name(said, "mixer=fnet") == "mixer=fnet"


def test_an_axis_of_the_scale_is_read_off_the_settings() -> None:
    said = mixers_alone.about(variants=("baseline", "dim=32", "heads=8"), subjects={})
    assert what_baseline_is(said) == "attention, dim=64, heads=4"


def test_a_label_that_says_it_needs_no_note(synthetic: ModuleType) -> None:
    said = synthetic.about()
    assert what_baseline_is(said) == ""
    assert shown_name(said, "heads=8") == "heads=8 (baseline)"

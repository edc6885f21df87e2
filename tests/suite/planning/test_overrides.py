"""Tests for `--set`: the plan equals that of an edited file, or one sentence explains why not."""

from dataclasses import replace
from pathlib import Path

import pytest

import bakeoff
from bakeoff.suite.planning.loader import of_value
from bakeoff.suite.planning.overrides import parsed
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import Model, SpecError, vary
from tests.suite.small_ablation import make_ablation

HEADS = vary("heads", [1, 4])
EDITED = {
    "steps=30": {"scale": {"steps": 30}},  # the default of the warm-up follows
    "heads=1,2,4": {"axes": [vary("heads", [1, 2, 4])]},
    "learning_rate=1e-2,0.003": {"axes": [HEADS, vary("learning_rate", [1e-2, 3e-3])]},
    "test_lengths=16,32 depth=2": {"scale": {"test_lengths": [16, 32], "depth": 2}},
    "beams=2,4 decode_batches=8": {"scale": {"beams": [2, 4], "decode_batches": [8]}},
    "heads=2 position=none scale=none": {
        "baseline": Model(mixer="attention", heads=2, scale="none", position="none")
    },
    "tasks=mqar_small length=32": {"tasks": ["mqar_small"], "scale": {"length": 32}},
}
REFUSED = {
    "steps": "give FIELD=VALUE",
    "steps=abc": "with --set steps=abc: steps='abc' must be a whole number",
    "steps=-4": "steps=-4: should be greater than or equal to 1",
    "heads=4,4": "heads is given 4 twice",
    "steps=3 steps=4": "'steps' is given twice",
    "claim=mine": "claim='mine' must be none",
}


@pytest.mark.parametrize("options", EDITED)
def test_the_trials_are_those_of_the_edited_file(options: str) -> None:
    of_file = replace(of_value(make_ablation()), file=Path("own.py"))
    found = plan(of_file, settings=parsed(options.split()))
    edited = plan(replace(of_file, ablation=make_ablation(**EDITED[options])))  # type: ignore[arg-type]
    assert [t.trial_id for t in found.trials] == [t.trial_id for t in edited.trials]
    asked = "".join(f" --set {option}" for option in options.split())
    assert found.about.regenerate == edited.about.regenerate + asked


@pytest.mark.parametrize("options", REFUSED)
def test_what_cannot_be_set_is_one_sentence(options: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan(make_ablation(), settings=parsed(options.split()))
    assert REFUSED[options] in str(caught.value)


def test_python_says_the_same_in_values() -> None:
    found = bakeoff.plan(make_ablation(), steps=30, heads=[1, 2, 4])
    assert found == plan(make_ablation(), settings=parsed(["steps=30", "heads=1,2,4"]))
    said = 'bakeoff.run(ABLATION, scale="quick", steps=30, heads=[1, 2, 4])'
    assert found.about.regenerate == said
    with pytest.raises(SpecError, match="did you mean 'steps'"):
        bakeoff.run(make_ablation(), stepz=3)

"""Tests for the sentence of a page that says what was compared, and at which equal budget."""

import pytest

from bakeoff.reports.pages.summary import facts
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import Axis, Scale, vary
from tests.suite.small_ablation import make_ablation

MIXERS = vary("mixer", ["attention", "lstm"])


def _compared(*axes: Axis, equal: str = "steps", scale: str = "quick") -> str:
    sizes = Scale(dim=16, depth=1, length=8, steps=200, batch=2, equal=equal)  # type: ignore[arg-type]
    ablation = make_ablation(axes=axes, combine="cross", scales={"quick": sizes, "smoke": sizes})
    about = plan(ablation, scale=scale).about
    return next(fact.text for fact in facts(about) if fact.title == "Compared")


@pytest.mark.parametrize(
    ("equal", "sentence"),
    [
        ("flops", "Each variant trains for as many FLOPs as the baseline, within 1 %."),
        ("tokens", "Each variant trains on as many tokens as the baseline, within 1 %."),
        ("parameters", "Each variant has as many parameters as the baseline, within 1 %."),
    ],
)
def test_a_page_says_which_budget_is_equal(equal: str, sentence: str) -> None:
    assert _compared(MIXERS, equal=equal).endswith(f"The baseline is attention. {sentence}")
    at_smoke = sentence.replace(", within 1 %", "")
    assert _compared(MIXERS, equal=equal, scale="smoke").endswith(at_smoke)


def test_equal_steps_need_no_sentence() -> None:
    assert _compared(MIXERS).endswith("The baseline is attention.")


def test_budgets_on_an_axis_are_those_that_labels_name() -> None:
    said = _compared(MIXERS, vary("equal", ["steps", "flops"]))
    assert said.endswith("Each variant has as much as the baseline of what its name says is equal.")

"""Formula, counter and theory in one row; and a formula that is wrong."""

from __future__ import annotations

import pytest

from models import MIXERS
from models.mixers.conv import Convolution
from suite.probes.mixer_flops import DisagreeingFlopsError, MixerFlops
from suite.schema import Measurement
from tests.suite.probes.alone import trial_of_mixer


class Boasting(Convolution):
    """Says that it takes half of what it takes."""

    def flops(self, length: int, batch: int = 1) -> float:
        return super().flops(length, batch) / 2


class WithoutTheory(Convolution):
    """Says nothing of Table 1."""

    cost = type(Convolution.cost)()


def measured(mixer: str, length: int, **knobs: int) -> dict[str, Measurement]:
    said = MixerFlops().measure(trial_of_mixer("mixer_flops", mixer, length, **knobs), "cpu")
    found = [each for each in said if isinstance(each, Measurement)]
    return {each.metric: each for each in found}


def test_a_convolution_by_hand() -> None:
    found = measured("conv", 100, dim=16, kernel_size=5)
    assert found["forward_flops"].value == found["counted_flops"].value == 100 * 5 * 2 * 16**2
    assert found["theory_operations"].value == 5 * 100 * 16**2
    assert [each.at for each in found.values()] == ["", "", ""]


@pytest.mark.parametrize("mixer", MIXERS)
def test_formula_and_counter_agree(mixer: str) -> None:
    found = measured(mixer, 4096)
    formula, counted = found["forward_flops"].value, found["counted_flops"].value
    assert formula is not None
    assert counted == pytest.approx(formula, rel=0.01)


def test_a_wrong_formula_is_an_error_with_both_numbers() -> None:
    with pytest.raises(DisagreeingFlopsError, match="76800 FLOPs by its formula, and 153600 by"):
        measured(f"{__name__}:Boasting", 100, dim=16)


def test_without_a_theory_there_is_no_row_of_it() -> None:
    found = measured(f"{__name__}:WithoutTheory", 10)
    assert list(found) == ["forward_flops", "counted_flops"]


def test_what_is_measured_is_what_was_announced() -> None:
    specs = MixerFlops().metrics(None, 10)
    found = measured("attention", 10).values()
    assert [(s.name, s.unit, s.better, s.at) for s in specs] == [
        (m.metric, m.unit, m.better, m.at) for m in found
    ]


def test_a_mixer_without_a_formula_is_not_planned() -> None:
    spec = trial_of_mixer("mixer_flops", "tests.suite.probes.no_formula:Silent", 8).subjects[0]
    assert MixerFlops().why_not(spec, None) == f"{spec.mixer} defines no flops(length, batch)"
    assert MixerFlops().why_not(trial_of_mixer("", "conv", 8).subjects[0], None) == ""

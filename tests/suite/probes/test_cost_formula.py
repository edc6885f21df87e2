"""Test cost formulas against hand-computed values, and the rejection of invalid formulas."""

from __future__ import annotations

import pytest

from bakeoff.models import MIXERS, ModelError, build_mixer
from bakeoff.models.mixer import Cost, Mixer
from bakeoff.suite.probes.cost_formula import evaluate, value_of
from tests.suite.probes.no_formula import Silent

SYMBOLS = {"n": 1024.0, "d": 64.0, "k": 3.0}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("1", 1.0),
        ("n**2 * d", 1024**2 * 64.0),
        ("k * n * d + n * d**2", 3 * 1024 * 64 + 1024 * 64**2.0),
        ("n * d * (log2(n) + log2(d))", 1024 * 64 * 16.0),
        ("-n / (d - 32)", -32.0),
        ("d ** 0.5", 8.0),
    ],
)
def test_a_formula_is_worked_out(formula: str, value: float) -> None:
    assert value_of(formula, SYMBOLS) == value


def test_k_and_r_are_what_the_mixer_makes_of_them() -> None:
    def time_of(name: str, **knobs: int) -> float | None:
        mixer = build_mixer(name, dim=64, **knobs)
        return evaluate(mixer, mixer.cost.time, 100)

    assert time_of("conv", kernel_size=5) == 5 * 100 * 64**2
    assert time_of("local_attention", window=7) == 7 * 100 * 64
    assert time_of("linformer", projected_length=20) == 100 * 20 * 64
    assert time_of("performer", num_features=48) == 100 * 48 * 64
    assert time_of("mlp_mixer", hidden=96) == 100 * 96 * 64


@pytest.mark.parametrize("name", MIXERS)
def test_every_mixer_says_what_its_formulas_need(name: str) -> None:
    mixer = build_mixer(name)
    for formula in vars(mixer.cost).values():
        value = evaluate(mixer, formula, 512)
        assert value is not None
        assert value >= 1


def silent() -> Mixer:
    return Silent(dim=8, max_length=16, is_causal=False, config=Silent.Config())


def test_no_formula_has_no_value() -> None:
    assert evaluate(silent(), Cost().time, 16) is None


def test_a_symbol_that_the_mixer_does_not_define_is_named() -> None:
    with pytest.raises(ModelError, match=r"'n \* k' names 'k', which is not one of d, n"):
        evaluate(silent(), "n * k", 16)


@pytest.mark.parametrize(
    "hostile",
    [
        "__import__('os').system('true')",
        "n.real",
        "().__class__",
        "[n for n in (1, 2)]",
        "(lambda: n)()",
        "log2.__self__",
        "log2(n, 2)",
        "log2(*[n])",
        "n if n else d",
        "n < d",
        "n // 2",
        "'n'",
        "True",
        "1j",
        "n; d",
        "n\nd",
        "",
    ],
)
def test_nothing_but_arithmetic_is_worked_out(hostile: str) -> None:
    with pytest.raises(ModelError, match="the formula"):
        value_of(hostile, SYMBOLS)


@pytest.mark.parametrize(
    "endless",
    ["9**9**9**9", "n**n", "1e400", "9" * 150 + "**9", "n / 0", "log2(n - n)", "(0 - n)**0.5"],
)
def test_what_has_no_finite_value_is_refused_at_once(endless: str) -> None:
    with pytest.raises(ModelError, match="has no finite value"):
        value_of(endless, SYMBOLS)


def test_a_formula_as_long_as_a_book_is_not_read() -> None:
    with pytest.raises(ModelError, match="too long"):
        value_of("(" * 10_000 + "n" + ")" * 10_000, SYMBOLS)
    with pytest.raises(ModelError, match="is not an expression"):
        value_of("(" * 190, SYMBOLS)

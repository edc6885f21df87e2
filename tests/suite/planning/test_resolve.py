"""Tests for resolving a variant and a task to a model, with refusals and incompatible rows."""

import re
from typing import Any

import pytest

from bakeoff.models import architecture_class, mixer_class
from bakeoff.models.model_spec import without_late_defaults
from bakeoff.suite.planning.knobs import Impossible, refuse_foreign_axes, with_defaults
from bakeoff.suite.planning.resolve import _with_article, variant_on
from bakeoff.suite.planning.variants import Baseline, variants_of
from bakeoff.suite.schema import Trial
from bakeoff.suite.spec import Ablation, Model, SpecError, vary
from bakeoff.suite.tasks.registry import task_class
from tests.suite.small_ablation import make_ablation

SHAKESPEARE, IMAGES = "shakespeare_characters", "fashion_mnist_patches"


def _baseline(ablation: Ablation) -> Baseline:
    scale = ablation.scales["quick"]
    return Baseline(ablation=ablation, scale=scale, knobs=with_defaults(ablation, scale))


def _subjects(ablation: Ablation, task: str = SHAKESPEARE) -> dict[str, Trial | str]:
    """Return each variant's subject, or the reason why there is none, by label."""
    found: dict[str, Trial | str] = {}
    baseline = _baseline(ablation)
    refuse_foreign_axes(baseline)
    for variant in variants_of(baseline)[1]:
        try:
            found[variant.label] = variant_on(baseline, variant, task)
        except Impossible as reason:
            found[variant.label] = str(reason)
    return found


def _refusal(ablation: Ablation, task: str = SHAKESPEARE) -> str:
    with pytest.raises(SpecError) as caught:
        _subjects(ablation, task)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_subject_is_complete() -> None:
    subject = _subjects(make_ablation())["heads=1"]
    assert isinstance(subject, Trial)
    assert dict(subject.subjects[0].knobs) == vars(mixer_class("attention").Config(heads=1))
    config = architecture_class("language_model").Config
    assert dict(subject.subjects[0].settings) == without_late_defaults(config, vars(config()))
    assert subject.subjects[0].architecture == "language_model"
    assert (subject.length, subject.batch, subject.training.steps) == (8, 2, 4)


def test_the_data_dictate_the_length_where_they_do() -> None:
    subject = _subjects(make_ablation(tasks=[IMAGES]), IMAGES)["heads=4"]
    assert isinstance(subject, Trial)
    assert (
        subject.length == subject.subjects[0].length == task_class(subject.task).fixed_length != 8
    )


def test_a_mixer_takes_the_knobs_that_it_has() -> None:
    found = _subjects(make_ablation(axes=[vary("mixer", ["attention", "lstm", "conv"])]))
    knobs = {
        label: set(subject.subjects[0].knobs)
        for label, subject in found.items()
        if isinstance(subject, Trial)
    }
    assert "heads" not in knobs["mixer=lstm"]
    assert knobs["mixer=conv"] == {"kernel_size"}
    assert "heads" in knobs["mixer=attention"]


@pytest.mark.parametrize(
    ("axis", "good", "bad", "reason"),
    [
        *(
            ("heads", 4, heads, f"attention: heads={heads} does not divide dim=16$")
            for heads in (3, 0, -1, 2**53)
        ),
        ("dim", 16, 18, "attention: heads=4 does not divide dim=18$"),
        ("mixer", "attention", "fnet", "fnet cannot be causal, and a language_model must be$"),
        ("length", 8, 2_000_000, ".*length must be 1 to 1048576 tokens, not 2000000"),
        (
            "architecture",
            "language_model",
            "classifier",
            "shakespeare_characters asks for next_symbols, and classifier gives class or number,",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_a_row(axis: str, good: Any, bad: Any, reason: str) -> None:
    found = _subjects(make_ablation(axes=[vary(axis, [good, bad])]))
    assert re.match(reason, str(found[f"{axis}={bad}"]))
    assert isinstance(found[f"{axis}={good}"], Trial)


@pytest.mark.parametrize(
    ("scale", "task", "refused"),
    [
        ({}, SHAKESPEARE, {"cudnn", "efficient"}),
        ({"gpus": 1.0}, SHAKESPEARE, {"flash", "cudnn"}),
        ({"gpus": 1.0, "precision": "bf16"}, SHAKESPEARE, set()),
        ({"gpus": 1.0, "precision": "bf16", "length": 64}, "listops", {"flash"}),
    ],
)
def test_a_kernel_that_the_place_does_not_have_is_a_row(
    scale: dict[str, Any], task: str, refused: set[str]
) -> None:
    kernels = ["fused", "flash", "cudnn", "efficient", "math", "materialised"]
    found = _subjects(
        make_ablation(axes=[vary("kernel", kernels)], tasks=[task], scale=scale), task
    )
    reasons = {k: said for k in kernels if isinstance(said := found[f"kernel={k}"], str)}
    assert reasons.keys() == refused
    assert all(said.startswith(f"kernel={kernel!r} ") for kernel, said in reasons.items())


def test_a_knob_that_one_mixer_of_a_cross_lacks_is_a_row() -> None:
    axes = [vary("mixer", ["attention", "lstm"]), vary("heads", [1, 4])]
    found = _subjects(make_ablation(axes=axes, combine="cross"))
    assert found["mixer=lstm, heads=1"] == "lstm has no knob 'heads'"
    assert isinstance(found["mixer=attention, heads=1"], Trial)
    assert isinstance(found["mixer=lstm, heads=4"], Trial)  # 4 is the value of the baseline


def test_a_size_that_no_tensor_has_is_a_row_with_one_line() -> None:
    baseline = Model(mixer="conv", kernel_size=3)
    found = _subjects(make_ablation(baseline=baseline, axes=[vary("kernel_size", [3, 2**53])]))
    reason = found[f"kernel_size={2**53}"]
    assert isinstance(reason, str)
    assert reason.startswith("conv cannot be built")
    assert "\n" not in reason


def test_an_architecture_has_the_article_of_its_first_letter() -> None:
    assert _with_article("encoder_decoder") == "an encoder_decoder"
    assert _with_article("language_model") == "a language_model"


def _settings(found: Trial | str) -> dict[str, Any]:
    assert isinstance(found, Trial)
    return dict(found.subjects[0].settings)


def test_an_architecture_takes_the_knobs_that_it_has() -> None:
    baseline = Model(mixer="attention", heads=2, pooling="class_token", dropout=0.25)
    ablation = make_ablation(
        baseline=baseline, tasks=[SHAKESPEARE, IMAGES], axes=[vary("norm_placement", ["post"])]
    )
    text, images = (_subjects(ablation, task) for task in (SHAKESPEARE, IMAGES))
    for found in (text, images):
        assert _settings(found["baseline"])["norm_placement"] == "pre"
        assert _settings(found["norm_placement=post"])["norm_placement"] == "post"
        assert {_settings(subject)["dropout"] for subject in found.values()} == {0.25}
    assert "pooling" not in _settings(text["baseline"])
    assert _settings(images["baseline"])["pooling"] == "class_token"
    assert _settings(text["baseline"])["is_tied"] is True


def test_a_whole_number_of_an_architectures_number_is_that_number() -> None:
    ablation = make_ablation(baseline=Model(mixer="attention", dropout=0))
    (dropout,) = {_settings(subject)["dropout"] for subject in _subjects(ablation).values()}
    assert type(dropout) is float


def test_a_knob_that_one_tasks_architecture_lacks_is_a_row_there() -> None:
    axes = [vary("pooling", ["mean", "class_token"])]
    ablation = make_ablation(tasks=[SHAKESPEARE, IMAGES], axes=axes)
    text, images = (_subjects(ablation, task) for task in (SHAKESPEARE, IMAGES))
    assert isinstance(text["pooling=mean"], Trial)  # equal to the baseline, so nothing is set
    assert text["pooling=class_token"] == "language_model has no knob 'pooling'"
    assert _settings(images["pooling=class_token"])["pooling"] == "class_token"


def test_the_architecture_of_a_varied_task_has_its_knobs_too() -> None:
    axes = [vary("task", [SHAKESPEARE, IMAGES]), vary("pooling", ["mean", "class_token"])]
    found = _subjects(make_ablation(axes=axes, combine="cross"))
    reason = found[f"task={SHAKESPEARE}, pooling=class_token"]
    assert reason == "language_model has no knob 'pooling'"
    assert _settings(found[f"task={IMAGES}, pooling=class_token"])["pooling"] == "class_token"


@pytest.mark.parametrize(
    ("axis", "value", "reason"),
    [
        ("dropout", 1, "language_model: dropout=1.0 is not at least 0 and below 1"),
        ("position", "rope", "lstm takes no relative position (rope): it computes no score"),
        ("position_mode", "concatenated", "position='none' has no vectors: there is nothing to"),
    ],
)
def test_what_is_incompatible_is_a_row(axis: str, value: Any, reason: str) -> None:
    baseline = Model(mixer="lstm", position="none")
    found = _subjects(make_ablation(baseline=baseline, axes=[vary(axis, [value])]))
    assert isinstance(found["baseline"], Trial)
    assert reason in str(found[f"{axis}={value}"])


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "mixer of an axis": (
        {"axes": [vary("mixer", ["lstn"])]},
        ["'lstn'", "did you mean 'lstm'", "`bakeoff list --mixers`"],
    ),
    "mixer that is a number": ({"axes": [vary("mixer", [3])]}, ["mixer '3'", "attention"]),
    "knob": (
        {"baseline": Model(mixer="attention", haeds=4)},
        ["attention", "'haeds'", "did you mean 'heads'"],
    ),
    "knob of the architecture": (
        {"baseline": Model(mixer="attention", is_tide=False)},
        ["attention or language_model", "'is_tide'", "did you mean 'is_tied'"],
    ),
    "knob of another task's architecture": (
        {"baseline": Model(mixer="attention", pooling="mean")},
        ["no knob of attention or language_model is called 'pooling'"],
    ),
    "axis of another task's architecture": (
        {"axes": [vary("pooling", ["mean", "class_token"])]},
        ["no axis 'pooling'", "docs/catalogue.md lists"],
    ),
    "axis near an architecture's knob": (
        {"axes": [vary("norm", ["pre", "post"])]},
        ["'norm'", "did you mean 'norm_eps' or 'norm_kind'"],
    ),
    "setting of the wrong type": (
        {"baseline": Model(mixer="attention", dropout="0.1")},
        ["language_model: knob dropout='0.1' is not allowed", "a finite number"],
    ),
    "setting of an axis": (
        {"axes": [vary("norm_placement", ["pre", "middle"])]},
        ["norm_placement='middle' is not allowed", "'pre' or 'post'"],
    ),
    "dropout of the baseline": (
        {"baseline": Model(mixer="attention", dropout=1)},
        ["the baseline is impossible", "dropout=1.0"],
    ),
    "bool for a whole number": (
        {"axes": [vary("heads", [True])]},
        ["heads=True", "a whole number"],
    ),
    "string for a whole number": ({"axes": [vary("heads", ["8"])]}, ["heads='8'", "whole"]),
    "position": (
        {"baseline": Model(mixer="attention", position="sinus")},
        ["'sinus'", "did you mean 'sinusoidal'", "learned"],
    ),
    "position of an axis": ({"axes": [vary("position", ["none", "lerned"])]}, ["'learned'"]),
    "architecture": (
        {"baseline": Model("languagemodel", mixer="attention")},
        ["'languagemodel'", "did you mean 'language_model'"],
    ),
    "axis of another mixer": (
        {"axes": [vary("mixer", ["attention", "conv"]), vary("kernel_size", [3, 5])]},
        [
            "the axis 'kernel_size'",
            "only to attention",
            "the knob belongs to conv, dilated_conv",
            'vary("model", [Model(mixer="attention"), Model(mixer="conv", kernel_size=...)])',
        ],
    ),
    "axis of a cross": (
        {"axes": [vary("mixer", ["lstm", "conv"]), vary("hedas", [1])], "combine": "cross"},
        ["'hedas'", "did you mean 'heads'"],
    ),
    "task of an axis": (
        {"axes": [vary("task", ["shakespeare_charactrs"])]},
        ["'shakespeare_charactrs'", "did you mean 'shakespeare_characters'"],
    ),
    "string for a number": (
        {"axes": [vary("learning_rate", ["1e-3"])]},
        ["learning_rate='1e-3'", "number"],
    ),
    "too much of it": ({"axes": [vary("dim", [2**53])]}, ["dim=9007199254740992", "65536"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_misspelt_or_mistyped_is_refused(case: str) -> None:
    fields, fragments = REFUSED[case]
    sentence = _refusal(make_ablation(**fields))
    assert [fragment for fragment in fragments if fragment not in sentence] == []

"""Test parameter and FLOP counts by hand (2 per multiply-add, 0 for elementwise work)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models import (
    MIXERS,
    Architecture,
    Input,
    Mixer,
    ModelError,
    build_model,
    flop_count,
    mixer_class,
)
from bakeoff.suite.planning.cost_model import seconds_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.decode import Decoding, TokenStep, next_token
from bakeoff.suite.probes.probe import exercise, probe
from bakeoff.suite.schema import Measurement, Resources, Status, Trial
from bakeoff.suite.spec import Ablation, Model, Scale, vary
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.tasks.sequence_to_sequence.digits import Reversal

DIM, DEPTH, LENGTH = 8, 3, 20
SILENT = "tests.suite.probes.no_formula:Silent"
FORMLESS = "tests.suite.probes.no_formula:Formless"


def trial(task: str, probe: str = "parameters", **model: str) -> Trial:
    ablation = Ablation(
        question="?",
        baseline=Model(**{"mixer": "attention", **model}),
        axes=[vary("depth", [DEPTH, 4])],
        tasks=[task],
        probes=[probe],
        scales={"quick": Scale(dim=DIM, depth=DEPTH, length=LENGTH, steps=1, batch=7)},
    )
    return plan(ablation).trials[0]


def measured(trial: Trial) -> Measurement:
    (found,) = probe(trial.probe).measure(trial, "cpu")
    assert isinstance(found, Measurement)
    return found


def count(trial: Trial) -> float | None:
    found = measured(trial)
    assert (found.metric, found.unit, found.better) == ("num_parameters", "1", "none")
    return found.value


class Complex(Architecture):
    """A complex number for each class, a frozen parameter, and a shared matrix."""

    @dataclass(frozen=True)
    class Config:
        """An empty config: the model has no knobs."""

    def build(self, seeds: object) -> None:
        size = self.spec.output_size
        self.phase = nn.Parameter(torch.zeros(size, dtype=torch.complex64))
        self.frozen = nn.Parameter(torch.zeros(5), requires_grad=False)
        self.table = nn.Embedding(self.spec.input_size, size)
        self.again = self.table

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        logits: Tensor = self.table(inputs).mean(1) + self.phase.real
        return logits


def test_a_complex_parameter_counts_as_two() -> None:
    asked = trial("listops")
    shipped = asked.subjects[0]
    spec = replace(
        shipped, architecture=f"{__name__}:Complex", mixer="", knobs={}, position="", settings={}
    )
    found = count(replace(asked, subjects=(spec,)))
    assert found == spec.output_size * (2 + spec.input_size)


# Attention without biases, an MLP of width 4 dim with biases, two norms with gain and bias.
BLOCK = 4 * DIM**2 + (DIM * 4 * DIM + 4 * DIM) + (4 * DIM * DIM + DIM) + 2 * 2 * DIM
FINAL_NORM = 2 * DIM


def test_a_language_model_counts_its_tied_matrix_once() -> None:
    assert count(trial("shakespeare_characters")) == 81 * DIM + DEPTH * BLOCK + FINAL_NORM


def test_learned_positions_count() -> None:
    fixed = count(trial("shakespeare_characters"))
    learned = count(trial("shakespeare_characters", position="learned"))
    assert fixed is not None
    assert learned == fixed + 20 * DIM


def test_a_classifier_counts_its_maps_in_and_out() -> None:
    maps = (16 * DIM + DIM) + (DIM * 10 + 10)
    assert count(trial("fashion_mnist_patches")) == maps + DEPTH * BLOCK + FINAL_NORM


def block(n: int) -> int:
    projections = 4 * 2 * n * DIM * DIM
    scores_and_sum = 2 * 2 * n * n * DIM
    mlp = 2 * 2 * n * DIM * 4 * DIM
    return projections + scores_and_sum + mlp


def test_a_language_model_of_one_sequence() -> None:
    found = measured(trial("shakespeare_characters", "flops"))
    assert found.value == DEPTH * block(LENGTH) + 2 * LENGTH * DIM * 81
    assert (found.unit, found.better, found.at) == ("FLOP", "lower", "length=20")


def test_a_classifier_of_one_sequence_at_the_length_of_its_data() -> None:
    found = measured(trial("fashion_mnist_patches", "flops"))
    assert found.value == 2 * 49 * 16 * DIM + DEPTH * block(49) + 2 * DIM * 10
    assert found.at == "length=49"


def test_a_source_counts_at_its_own_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formula and count agree for a source that is much longer than its target."""
    longer = {"context": Input(kind="tokens", size=13, length=3 * LENGTH)}
    monkeypatch.setattr(Reversal, "other_inputs", classmethod(lambda cls, length: longer))
    of_translator = trial("reversal", "flops")
    model, spec = build_model(of_translator.subjects[0]), of_translator.subjects[0]
    assert spec.others == longer
    of_source, of_target = (torch.ones(1, n, dtype=torch.long) for n in (3 * LENGTH, LENGTH))
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(of_target, context=of_source)
    counted = counter.get_total_flops()
    assert measured(of_translator).value == pytest.approx(counted, rel=0.01)
    trained = trial("reversal", "quality")
    assert exercise(trained, model).flops_per_step == pytest.approx(3 * 7 * counted, rel=0.01)
    with_longer = seconds_of(trained, Resources())
    monkeypatch.undo()
    assert seconds_of(trained, Resources()) < with_longer


def test_a_mixer_without_a_formula_is_counted() -> None:
    """Compare the mean, elementwise work, with a mixer whose formula returns 0."""
    shipped = trial("fashion_mnist_patches", "flops")
    spec = shipped.subjects[0]
    without = replace(spec, mixer=SILENT, knobs={})
    mixers = sum(
        each.flops(spec.length) for each in build_model(spec).modules() if isinstance(each, Mixer)
    )
    found = measured(replace(shipped, subjects=(without,))).value
    assert found == (measured(shipped).value or 0) - mixers


def test_an_operation_of_unknown_cost_is_a_skipped_row_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shipped = trial("fashion_mnist_patches", "flops")
    without = replace(shipped.subjects[0], mixer=SILENT, knobs={}, output_size=7)
    monkeypatch.setattr(flop_count, "_FREE", flop_count._FREE - {"mean"})
    found = measured(replace(shipped, subjects=(without,)))
    assert (found.value, found.status) == (None, Status.SKIPPED)
    assert "aten.mean.dim has no FLOPs formula" in found.reason


STEPPING = [name for name in MIXERS if mixer_class(name).supports_step]


@pytest.mark.parametrize(
    ("mixer", "task"),
    [
        ("attention", "shakespeare_characters"),
        ("gru", "shakespeare_characters"),
        *(
            pytest.param(mixer, "shakespeare_characters", marks=pytest.mark.battery)
            for mixer in STEPPING
            if mixer not in ("attention", "gru")
        ),
        *(pytest.param(mixer, "reversal", marks=pytest.mark.battery) for mixer in STEPPING),
        ("gated_delta*3+attention", "shakespeare_characters"),
        ("gated_delta*3+attention", "reversal"),
    ],
)
def test_the_state_is_what_a_decoding_model_keeps(mixer: str, task: str) -> None:
    found = trial(task, "state_bytes", mixer=mixer)
    (spec,) = found.subjects
    inputs = task_class(task).interface(found.length).inputs
    decoded = next_token(spec, "cpu", Decoding(inputs))
    assert isinstance(decoded, TokenStep)
    said = measured(found)
    assert said.value == decoded.state_bytes
    assert (said.metric, said.unit, said.better) == ("state_bytes", "B", "lower")
    assert said.at == f"length={found.length}"


def test_a_hybrid_keeps_the_sum_of_its_layers() -> None:
    """Use three layers with a fixed state below one that keeps all keys and values."""
    hybrid, fixed, growing = (
        measured(trial("shakespeare_characters", "state_bytes", mixer=mixer)).value or 0.0
        for mixer in ("retention*2+attention", "retention", "attention")
    )
    assert growing == DEPTH * LENGTH * 2 * DIM * 4
    assert hybrid == (2 * fixed + growing) / DEPTH
    assert fixed > 0


def test_what_keeps_no_state_is_a_skipped_row_that_says_why() -> None:
    mixers = ["attention", "lsh_attention", "fnet"]
    ablation = Ablation(
        question="?",
        baseline=Model(mixer="attention"),
        axes=[vary("mixer", mixers)],
        tasks=["shakespeare_characters", "listops"],
        probes=["state_bytes"],
        scales={"quick": Scale(dim=DIM, depth=1, length=32, steps=1, batch=7)},
    )
    reasons = {(cell.task, cell.variant): cell.reason for cell in plan(ablation).cells}
    assert reasons["shakespeare_characters", "mixer=attention"] == ""
    assert reasons["shakespeare_characters", "mixer=lsh_attention"] == (
        "lsh_attention has no step form"
    )
    assert "causal" in reasons["shakespeare_characters", "mixer=fnet"]
    for mixer in mixers:
        assert reasons["listops", f"mixer={mixer}"] == (
            "a classifier does not write its own next token"
        )


def test_a_state_without_a_formula_is_a_skipped_row() -> None:
    """Check an architecture with its own step method, and a user's mixer."""
    ablation = Ablation(
        question="?",
        baseline=Model("bytenet"),
        axes=[vary("depth", [1, 2])],
        tasks=["reversal"],
        probes=["state_bytes", "parameters"],
        scales={"quick": Scale(dim=DIM, depth=1, length=32, steps=1, batch=7)},
    )
    found = plan(ablation)
    reasons = {cell.reason for cell in found.cells if cell.probe == "state_bytes"}
    assert reasons == {"bytenet defines no state_bytes(length)"}
    with pytest.raises(ModelError, match="bytenet defines no state_bytes"):
        build_model(found.trials[0].subjects[0]).state_bytes(8)
    own = replace(trial("shakespeare_characters").subjects[0], mixer=FORMLESS)
    assert probe("state_bytes").why_not(own, None) == f"{FORMLESS} defines no state_bytes(length)"

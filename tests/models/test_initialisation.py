"""Check a model's initial values: their distribution, and that variants stay paired."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import Architecture, ModelError, architecture_class, mixer_class
from bakeoff.models.initialisation import declared
from tests.models.small_models import DIM, OF_ONE_INPUT, build, spec

OTHERS = ["truncated_normal", "xavier_uniform"]
others = pytest.mark.parametrize("initialisation", OTHERS)


def matrices(model: Architecture) -> dict[str, Tensor]:
    """Return the parameters with two or more axes, by name."""
    return {name: p.detach() for name, p in model.named_parameters() if p.dim() >= 2}


def is_table(name: str) -> bool:
    return "table" in name or "position" in name or "segments" in name


def bound(weight: Tensor) -> float:
    """Return the bound of Glorot and Bengio 2010, equation 16; each tap of a kernel counts."""
    num_outputs, num_inputs = weight.shape[:2]
    return math.sqrt(6 / ((num_inputs + num_outputs) * math.prod(weight.shape[2:])))


@pytest.mark.parametrize(
    "mixer",
    ["attention", *(pytest.param(m, marks=pytest.mark.battery) for m in ("lstm", "conv"))],
)
@pytest.mark.parametrize(
    "architecture",
    [n for n in OF_ONE_INPUT if hasattr(architecture_class(n).Config(), "initialisation")],
)
@others
def test_every_linear_map_is_drawn_again_and_no_table(
    initialisation: str, architecture: str, mixer: str
) -> None:
    model = build(spec(architecture, mixer, dim=64, initialisation="scaled_normal"))
    before, own = matrices(model), declared(model, "keeps_own_draw")
    after = matrices(build(spec(architecture, mixer, dim=64, initialisation=initialisation)))
    kept = {name for name in before if torch.equal(before[name], after[name])}
    own_names = {name for name, parameter in model.named_parameters() if parameter in own}
    assert kept == {name for name in before if is_table(name) or name in own_names}
    for name in before.keys() - kept:
        weight = after[name]
        largest = 0.04 if initialisation == "truncated_normal" else bound(weight)
        # The deviations of a normal cut at two standard deviations, and of a uniform distribution.
        deviation = 0.8796 * 0.02 if initialisation == "truncated_normal" else largest / 3**0.5
        assert 0.95 * largest < weight.abs().max() <= largest, name
        spread = max(0.05, 3 / weight.numel() ** 0.5)  # 4 deviations of a small map's own
        assert weight.std().item() == pytest.approx(deviation, rel=spread), name
        assert weight.mean().abs() < 0.1 * deviation, name


def test_gpt2_divides_what_sub_layers_add() -> None:
    """Check the division by the root of the number of sub-layers, two in each of three blocks."""
    changes = {"dim": 64, "depth": 3, "initialisation": "gpt2", "has_scaled_embedding": False}
    drawn = matrices(build(spec("language_model", "attention", **changes)))
    added = {name for name in drawn if "mixer.output" in name or "mlp.contract" in name}
    assert len(added) == 6
    for name, weight in drawn.items():
        if name != "trunk.position.table":
            deviation = 0.02 / 6**0.5 if name in added else 0.02
            assert weight.std().item() == pytest.approx(deviation, rel=0.1), name
            assert weight.abs().max() > 2.5 * deviation, "normal, and not cut"


@others
def test_the_vectors_of_a_linear_input_are_no_table(initialisation: str) -> None:
    plain = spec("classifier", input_kind="vectors")
    redrawn = spec("classifier", input_kind="vectors", initialisation=initialisation)
    ours, theirs = (build(each).embedding.map.weight for each in (plain, redrawn))
    assert not torch.equal(ours, theirs)


@others
def test_biases_of_layers_become_zero_and_those_of_gates_stay(initialisation: str) -> None:
    model = build(spec("classifier", "lstm", input_kind="vectors", initialisation=initialisation))
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv1d) and module.bias is not None:
            assert not module.bias.any()
    gates = [p for name, p in model.named_parameters() if "mixer" in name and p.dim() == 1]
    before = build(spec("classifier", "lstm", input_kind="vectors")).named_parameters()
    as_drawn = [p for name, p in before if "mixer" in name and p.dim() == 1]
    assert gates
    assert all(torch.equal(a, b) for a, b in zip(gates, as_drawn, strict=True))
    plain = build(spec("tagger", "conv", initialisation=initialisation)).named_parameters()
    assert not any(p.any() for name, p in plain if name.endswith("bias"))


def test_a_stack_of_matrices_is_drawn_matrix_by_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check one map per head; a kernel's third axis is its taps, a stack's first its heads."""
    conv = mixer_class("conv")
    plain = conv.__init__

    def with_a_stack(self: Any, **arguments: Any) -> None:
        plain(self, **arguments)
        self.stack = nn.Parameter(torch.zeros(4, DIM, 2 * DIM))

    monkeypatch.setattr(conv, "__init__", with_a_stack)
    model = build(spec("tagger", "conv", initialisation="xavier_uniform"))
    stack = model.trunk.blocks[0].mixer.stack
    largest = math.sqrt(6 / (3 * DIM))
    for matrix in stack:
        assert 0.95 * largest < matrix.abs().max() <= largest
    assert not torch.equal(stack[0], stack[1])


def test_a_map_that_layers_share_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def share(self: Any, layer: int, first: Any) -> None:
        for name, parameter in first.named_parameters():
            owner = self.get_submodule(name.rpartition(".")[0])
            setattr(owner, name.rpartition(".")[2], parameter)

    settings = {"initialisation": "xavier_uniform"}
    alone = build(spec("tagger", "conv", **settings)).trunk.blocks[0].mixer.state_dict()
    monkeypatch.setattr(mixer_class("conv"), "take_place", share)
    for block in build(spec("tagger", "conv", **settings)).trunk.blocks:
        for name, value in block.mixer.state_dict().items():
            assert torch.equal(value, alone[name])


@others
def test_what_is_no_linear_map_starts_as_its_part_says(initialisation: str) -> None:
    """Check every mixer: gains, temperatures and similar parameters have one axis."""
    knobs = {"heads": 4, "score": "cosine", "scale": "learned"}
    drawn, plain = (
        build(spec("classifier", knobs=knobs, initialisation=each)).trunk.blocks[0].mixer
        for each in (initialisation, "scaled_normal")
    )
    assert torch.equal(drawn.log_temperature, plain.log_temperature)
    assert not torch.equal(drawn.query.weight, plain.query.weight)


@others
def test_what_a_module_declares_keeps_its_own_draw(
    initialisation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a parameter, a layer with its bias and a bias alone, shared or not."""
    conv = mixer_class("conv")
    plain = conv.__init__

    def with_own(self: Any, **arguments: Any) -> None:
        plain(self, **arguments)
        self.table = nn.Parameter(torch.full((4, 5), 7.0))
        self.near_zero, self.gate = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.again, self.absent = self.near_zero, None
        for layer in (self.near_zero, self.gate):
            nn.init.constant_(layer.weight, 1e-3)
            nn.init.constant_(layer.bias, 1e-3)

    monkeypatch.setattr(conv, "__init__", with_own)
    names = ("table", "again", "gate.bias", "absent")
    monkeypatch.setattr(conv, "keeps_own_draw", names, raising=False)
    model = build(spec("tagger", "conv", initialisation=initialisation))
    mixer = model.trunk.blocks[0].mixer
    assert (mixer.table == 7).all()
    for kept in (mixer.near_zero.weight, mixer.near_zero.bias, mixer.gate.bias):
        assert (kept == 1e-3).all()
    assert not (mixer.gate.weight == 1e-3).any()
    monkeypatch.setattr(conv, "keeps_own_draw", ("tabel",))
    with pytest.raises(ModelError, match="Convolution has no 'tabel', which its keeps_own_draw"):
        build(spec("tagger", "conv", initialisation=initialisation))


@others
def test_what_bears_the_mark_of_mambas_code_keeps_its_own_draw(
    initialisation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conv = mixer_class("conv")
    plain = conv.__init__

    def with_own(self: Any, **arguments: Any) -> None:
        plain(self, **arguments)
        self.table = nn.Parameter(torch.full((4, 5), 7.0))
        self.dt = nn.Linear(DIM, DIM)
        nn.init.constant_(self.dt.bias, 1e-3)
        nn.init.constant_(self.dt.weight, 1e-3)
        self.table._no_reinit = self.dt.bias._no_reinit = True  # type: ignore[attr-defined]

    monkeypatch.setattr(conv, "__init__", with_own)
    mixer = build(spec("tagger", "conv", initialisation=initialisation)).trunk.blocks[0].mixer
    assert (mixer.table == 7).all()
    assert (mixer.dt.bias == 1e-3).all()
    assert not (mixer.dt.weight == 1e-3).any()


def test_parameters_without_weight_decay_are_found() -> None:
    model = build(spec("tagger", "conv", layer_scale=0.1))
    names = {
        name for name, p in model.named_parameters() if p in declared(model, "no_weight_decay")
    }
    assert names == {
        f"trunk.blocks.{i}.{part}_sum.scale" for i in (0, 1) for part in ("mixer", "mlp")
    }

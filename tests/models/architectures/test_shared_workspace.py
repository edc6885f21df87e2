"""Compare the shared workspace with a loop over slots and tokens, and with no memory at all."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelError, build_shapes
from bakeoff.models.architectures.shared_workspace import SharedWorkspace, Workspace, largest
from tests.models.small_models import DIM, LENGTH, build, inputs, spec

TOKENS = inputs(spec("shared_workspace"))
MASK = torch.arange(LENGTH) < torch.tensor([[LENGTH], [7], [2]])


def double(**changes: Any) -> SharedWorkspace:
    model = build(spec("shared_workspace", **changes)).double().eval()
    assert isinstance(model, SharedWorkspace)
    return model


def of_each_head(x: Tensor, heads: int) -> list[Tensor]:
    return list(x.view(heads, -1))


def softmax(scores: list[Tensor]) -> list[Tensor]:
    terms = [score.exp() for score in scores]
    return [term / sum(terms) for term in terms]


def attended(w: Workspace, asking: Tensor, asked: list[Tensor], top_k: int | None = None) -> Tensor:
    """Attend from one vector to others, head by head, without a scale."""
    found = []
    for h in range(w.heads):
        query = of_each_head(w.query(asking), w.heads)[h]
        keys = [of_each_head(w.key(each), w.heads)[h] for each in asked]
        values = [of_each_head(w.value(each), w.heads)[h] for each in asked]
        weights = softmax([query @ key for key in keys])
        chosen = sorted(range(len(asked)), key=lambda j: -float(weights[j].detach()))
        found.append(sum(weights[j] * values[j] for j in chosen[:top_k]))
    return torch.cat(found)


def by_loop(w: Workspace, x: list[Tensor], memory: list[Tensor]) -> tuple[list[Tensor], ...]:
    """Return the outputs of the tokens of one sequence, and the updated memory."""
    x = [w.project(each) for each in x]
    mean = sum((w.gate_factor * each).relu() for each in x) / len(x)
    left = []
    for s, m in enumerate(memory):
        new = w.norm(m + attended(w, m, x, w.top_k))
        changed = new
        for _ in range(4):
            changed = w.mlp(changed).relu()
        new = w.mlp_norm(new + changed)
        i, f = (w.input_gate(mean) + w.slot_gates[s](m.tanh())).view(2, -1)
        i, f = (i + w.gate_bias[0]).sigmoid(), (f + w.gate_bias[1]).sigmoid()
        left.append(i * new.tanh() + f * m)
    return [attended(w, each, left) for each in x], left


def memory_at_start(slots: int) -> list[Tensor]:
    rows = [[float(i == j) for j in range(DIM)] for i in range(slots)]
    return list(torch.tensor(rows).double())


@pytest.mark.whole
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"write": "soft"},
        pytest.param({"top_k": 50}, marks=pytest.mark.battery),
        pytest.param({"slots": 20, "top_k": 1}, marks=pytest.mark.battery),
        pytest.param({"is_shared": False}, marks=pytest.mark.battery),
    ],
)
def test_it_is_the_loop_over_layers_slots_and_tokens(settings: dict[str, Any]) -> None:
    model = double(**settings)
    found = model.trunk(model.embedding(TOKENS, MASK), MASK)
    for b, length in enumerate(MASK.sum(dim=1)):
        x = list(model.trunk.position(model.embedding(TOKENS))[b, :length])
        memory = memory_at_start(settings.get("slots", 8))
        for layer in range(2):
            block = model.trunk.block_of(layer)
            read, memory = by_loop(block.mixer, [block.mixer_norm(each) for each in x], memory)
            x = [each + r for each, r in zip(x, read, strict=True)]
            x = [each + block.mlp(block.mlp_norm(each)) for each in x]
        expected = torch.stack([model.trunk.norm(each) for each in x])
        torch.testing.assert_close(found[b, :length], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("is_shared", [True, False])
def test_without_memory_it_is_a_classifier_with_attention(is_shared: bool) -> None:
    ours = double(has_memory=False, is_shared=is_shared, attention_heads=2)
    theirs = build(spec("classifier", "attention", knobs={"heads": 2})).double().eval()
    if is_shared:
        theirs.trunk.blocks[1] = theirs.trunk.blocks[0]
    torch.testing.assert_close(ours(TOKENS, MASK), theirs(TOKENS, MASK), rtol=0, atol=0)
    assert ours.num_parameters() == theirs.num_parameters()
    assert ours.mixers_of(ours.spec) == ("attention",)


def test_shared_layers_have_the_parameters_of_one() -> None:
    counts = {
        (is_shared, depth): double(is_shared=is_shared, depth=depth).num_parameters()
        for is_shared in (True, False)
        for depth in (1, 3)
    }
    assert counts[True, 1] == counts[True, 3] == counts[False, 1]
    assert counts[False, 3] - counts[False, 1] == 2 * sum(
        p.numel() for p in double(depth=1).trunk.blocks.parameters()
    )


def test_a_sequence_knows_nothing_of_others_nor_of_earlier_batches() -> None:
    model = double()
    together = model(TOKENS)
    assert torch.equal(model(TOKENS), together)
    for b in range(len(TOKENS)):
        torch.testing.assert_close(model(TOKENS[b : b + 1]), together[b : b + 1])


def test_only_tokens_that_are_chosen_are_written_and_their_weights_stay_as_they_are() -> None:
    """Check that only chosen values get a gradient, and all scores do, through the softmax."""
    drawn = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 9, generator=drawn).requires_grad_()
    values = torch.randn(9, 3, generator=drawn).requires_grad_()
    weights = scores.softmax(dim=-1)
    kept = largest(weights, 2)
    assert ((kept == 0) | (kept == weights)).all()
    assert ((kept > 0).sum(dim=-1) == 2).all()
    assert kept.sum(dim=-1).max() < 1
    (kept @ values).sum().backward()
    chosen = (kept > 0).any(dim=0)
    assert 0 < chosen.sum() < 9
    assert values.grad is not None
    assert scores.grad is not None
    assert torch.equal(values.grad.any(dim=1), chosen)
    assert scores.grad.all()


def test_the_memory_reaches_upwards_and_every_parameter_learns() -> None:
    """Check that the memory comes from the layer below, not from the identity again."""
    model = double(is_shared=False)
    logits = model(TOKENS)
    logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
    upper = model.trunk.block_of(1)
    x = torch.randn(2, 4, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    fresh, _ = upper.through(x, None, None)
    carried, _ = upper.through(x, None, torch.stack(memory_at_start(8)).repeat(2, 1, 1) + 1)
    assert not torch.allclose(fresh, carried, rtol=0, atol=1e-3)


def test_gates_start_open_to_what_was_there() -> None:
    workspace = double().trunk.block_of(0).mixer
    for each in (workspace.input_gate, *workspace.slot_gates):
        for parameter in each.parameters():
            nn.init.zeros_(parameter)
    tokens, empty = torch.randn(2, 4, DIM).double(), torch.zeros(2, 8, DIM).double()
    taken, kept = workspace._gates(tokens, None, empty)
    assert float(taken.detach().mean()) == pytest.approx(0.5)
    assert float(kept.detach().mean()) == pytest.approx(1 / (1 + math.exp(-1)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slots": 0}, "shared_workspace: slots=0 is not at least 1"),
        ({"top_k": 0}, "shared_workspace: top_k=0 is not at least 1"),
        ({"attention_heads": 0}, "shared_workspace: attention_heads=0 is not at least 1"),
        ({"attention_heads": 3}, "attention_heads=3 does not divide dim=16"),
        ({"residual": "reversible"}, "residual='reversible' knows no memory"),
        ({"position": "rope"}, "shared_workspace takes no relative position"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build_shapes(spec("shared_workspace", **changes))

"""Check reversible stacks: their formula, and gradients without stored activations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from bakeoff.models import Architecture, ModelError
from bakeoff.models.reversible import activations_kept
from tests.models.small_models import DIM, LENGTH, build, inputs, outputs, spec

NOISY = {"dropout": 0.3, "stochastic_depth": 0.4, "layer_scale": 0.5}
PRE = {"norm_placement": "pre", "residual": "reversible"}


def test_two_streams_are_the_formula() -> None:
    model, x = build(spec("tagger", **PRE)), torch.randn(2, LENGTH, DIM)
    x1 = x2 = model.trunk.position(x)
    for block in model.trunk.blocks:
        x1 = x1 + block.mixer(block.mixer_norm(x2))
        x2 = x2 + block.mlp(block.mlp_norm(x1))
    torch.testing.assert_close(model.trunk(x), model.trunk.norm((x1 + x2) / 2))
    with torch.no_grad():
        torch.testing.assert_close(model.trunk(x), model.trunk.norm((x1 + x2) / 2))


Way = Callable[[], AbstractContextManager[None]]
BOTH: tuple[Way, Way] = (activations_kept, nullcontext)  # by plain autograd, and unchanged


def gradients(model: Architecture, way: Way) -> list[Tensor]:
    torch.manual_seed(3)
    with way():
        logits = outputs(model)
    torch.rand(5)  # other draws before the backward pass
    loss = (logits * torch.linspace(-1, 1, logits.numel()).view_as(logits)).sum()
    return [logits, *torch.autograd.grad(loss, list(model.parameters())), torch.rand(3)]


@pytest.mark.parametrize(
    ("architecture", "mixer", "settings"),
    [
        ("translator", "attention", {**PRE, **NOISY}),
        ("translator", "linformer+attention", {**PRE, "decoder_mixer": "gru", **NOISY}),
        ("language_model", "lstm+attention", {**PRE, **NOISY, "norm_placement": "res_post"}),
        ("tagger", "linformer", {**PRE, "dropout": 0.3}),
        ("tagger", "conv", {**PRE, "feed_forward": "none", "dropout": 0.3}),
        ("tagger", "lsh_attention", PRE),  # its hashes are drawn again
    ],
    ids=str,
)
def test_gradients_are_those_of_plain_autograd(
    architecture: str, mixer: str, settings: dict[str, Any]
) -> None:
    """Compare all parameters up to rounding, with the source's encoder; dropout is drawn again."""
    own: dict[str, dict[str, Any]] = {
        "linformer": {"sharing": "layerwise"},
        "lsh_attention": {"chunk": 3},
    }
    knobs = own.get(mixer, {})
    model = build(spec(architecture, mixer, depth=3, knobs=knobs, **settings)).double()
    kept, found = (gradients(model, way) for way in BOTH)
    assert max(each.abs().max() for each in kept[1:-1]) > 1
    for expected, gradient in zip(kept, found, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-9)


def test_one_sub_layer_and_frozen_parameters() -> None:
    model = build(spec("tagger", "conv", depth=1, feed_forward="none", **PRE)).double()
    for parameter in model.trunk.blocks[0].mixer.parameters():
        parameter.requires_grad_(False)
    parameters = [p for p in model.parameters() if p.requires_grad]
    found = []
    for way in BOTH:
        with way():
            loss = outputs(model).square().sum()
        found.append(torch.autograd.grad(loss, parameters))
    torch.testing.assert_close(*found)


def test_autocast_is_as_it_was() -> None:
    model = build(spec("tagger", "attention", **PRE, **NOISY))
    found = []
    for way in BOTH:
        torch.manual_seed(3)
        with way(), torch.autocast("cpu", torch.bfloat16):
            loss = model(inputs(model.spec)).float().square().sum()
        found.append(torch.autograd.grad(loss, list(model.parameters())))
    for kept, again in zip(*found, strict=True):
        assert again.dtype is torch.float32
        torch.testing.assert_close(again, kept, rtol=0.02, atol=0.02 * float(kept.abs().max()))


def saved_bytes(residual: str, depth: int) -> int:
    """Return the bytes that a forward pass keeps for the backward pass, without parameters."""
    model = build(spec("tagger", "attention", depth=depth, residual=residual, dropout=0.1))
    own = {parameter.data_ptr() for parameter in model.parameters()}
    found: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            found[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        kept = outputs(model)
    assert kept.requires_grad
    return sum(found.values())


def test_what_is_kept_does_not_grow_with_depth() -> None:
    assert saved_bytes("reversible", 6) == saved_bytes("reversible", 1)
    assert saved_bytes("reversible", 1) < saved_bytes("sum", 1)
    assert saved_bytes("sum", 6) > 3 * saved_bytes("sum", 1)


def test_states_of_random_numbers_are_kept_once_where_nothing_is_drawn() -> None:
    model = build(spec("tagger", "conv", depth=4, **PRE))
    hidden = model.trunk(torch.randn(2, LENGTH, DIM))
    (run,) = (f.run for f in graph_of(hidden) if hasattr(f, "run"))
    assert len(run.states) == 8
    assert len({id(state) for state in run.states}) == 1


def graph_of(tensor: Tensor) -> list[Any]:
    found, left = [], [tensor.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in found:
            found.append(node)
            left += [each for each, _ in node.next_functions]
    return found


def test_a_translator_steps_through_two_streams() -> None:
    model = build(spec("translator", **PRE)).double().eval()
    target, source = inputs(model.spec, length=5), inputs(model.spec).flip(1)
    state, logits = model.initial_state(len(target), model.encode(source)), []
    for tokens in target.unbind(dim=1):
        found, state = model.step(tokens, state)
        logits.append(found)
    torch.testing.assert_close(torch.stack(logits, dim=1), model(target, context=source))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"norm_placement": "post"}, "cannot be undone through norm_placement='post'"),
        ({"norm_kind": "batch"}, "norm_kind='batch' would count each batch twice"),
        ({"has_residual": False}, "residual='reversible' needs a sum, and has_residual=False"),
        ({"mixer": "performer"}, "performer changes as it trains, and residual='reversible'"),
    ],
)
def test_what_does_not_go_with_it_is_refused(settings: dict[str, Any], message: str) -> None:
    parts = {k: v for k, v in settings.items() if k == "mixer"}
    knobs = {k: v for k, v in settings.items() if k not in parts}
    with pytest.raises(ModelError, match=message):
        build(replace(spec("tagger", residual="reversible", **knobs), **parts))

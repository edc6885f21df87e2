"""Check that the Decision Transformer equals that of `transformers`, with and without padding.

Every parameter of ours is moved away from its initial value and copied by name.
The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import Architecture, Input, ModelSpec, build_model
from bakeoff.models.interface import ACTIONS, INPUTS, RETURNS, TIMES

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("default")]

DIM, DEPTH, HEADS, STEPS, STATE, ACTION, LIMIT = 24, 2, 3, 7, 5, 4, 30
NAMES = {
    r"^state\.": "embed_state.",
    r"^action\.": "embed_action.",
    r"^asked\.": "embed_return.",
    r"^time\.": "embed_timestep.",
    r"^embedding_norm": "embed_ln",
    r"^head": "predict_action.0",
    r"^trunk\.norm": "encoder.ln_f",
    r"^trunk\.blocks\.(\d+)\.": r"encoder.h.\1.",
    r"mixer_norm": "ln_1",
    r"mlp_norm": "ln_2",
    r"mixer\.output": "attn.c_proj",
    r"mlp\.expand": "mlp.c_fc",
    r"mlp\.contract": "mlp.c_proj",
}
PACKED = ("query", "key", "value")
MASK = torch.arange(STEPS) >= torch.tensor([[0], [3], [STEPS - 1]])  # padding first, as in theirs


def ours() -> Architecture:
    """Build our model in float64 and evaluation mode, with all its parameters moved."""
    torch.manual_seed(0)
    others = {
        ACTIONS: Input(kind="vectors", size=ACTION, length=STEPS),
        RETURNS: Input(kind="vectors", size=1, length=STEPS),
        TIMES: Input(kind="tokens", size=LIMIT, length=STEPS),
    }
    model = build_model(
        ModelSpec(
            architecture="decision_transformer",
            mixer="attention",
            knobs={"heads": HEADS, "bias": True},
            position="none",
            dim=DIM,
            depth=DEPTH,
            length=STEPS,
            input_kind="vectors",
            input_size=STATE,
            output_size=ACTION,
            settings={"return_scale": 10.0},
            others=others,
        )
    )
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.double().eval()


def with_weights_of(model: Architecture) -> nn.Module:
    """Build theirs in float64; its unused heads predict the next state and the next return."""
    from transformers import DecisionTransformerConfig, DecisionTransformerModel

    config = DecisionTransformerConfig(
        state_dim=STATE,
        act_dim=ACTION,
        hidden_size=DIM,
        max_ep_len=LIMIT,
        n_layer=DEPTH,
        n_head=HEADS,
    )
    theirs: Any = DecisionTransformerModel(config).double().eval()
    missing, unexpected = theirs.load_state_dict(renamed(model), strict=False)
    unused = [f"predict_{of}.{kind}" for of in ("return", "state") for kind in ("bias", "weight")]
    places = ["encoder.wpe.weight", "encoder.wte.weight"]  # it adds the first one to each token
    assert sorted(missing) == [*places, *unused]
    assert not unexpected
    theirs.encoder.wpe.weight.data.zero_()
    module: nn.Module = theirs
    return module


def renamed(model: nn.Module) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        for own, public in NAMES.items():
            name = re.sub(own, public, name)
        is_turned = name.startswith("encoder.h") and parameter.ndim == 2
        found[name] = parameter.detach().T if is_turned else parameter.detach()
    for layer in range(DEPTH):
        for kind in ("weight", "bias"):
            parts = [found.pop(f"encoder.h.{layer}.mixer.{part}.{kind}") for part in PACKED]
            found[f"encoder.h.{layer}.attn.c_attn.{kind}"] = torch.cat(parts, dim=-1)
    return found


def episode() -> dict[str, Tensor]:
    drawn = torch.Generator().manual_seed(1)
    return {
        INPUTS: torch.randn(3, STEPS, STATE, generator=drawn).double(),
        ACTIONS: torch.randn(3, STEPS, ACTION, generator=drawn).double(),
        RETURNS: torch.randn(3, STEPS, 1, generator=drawn).double(),
        TIMES: torch.arange(STEPS) + torch.tensor([[4], [0], [20]]),
    }


def said(theirs: nn.Module, given: dict[str, Tensor], mask: Tensor | None) -> Tensor:
    found: Any = theirs(
        states=given[INPUTS],
        actions=given[ACTIONS],
        returns_to_go=given[RETURNS] / 10,
        timesteps=given[TIMES],
        attention_mask=None if mask is None else mask.long(),
    )
    actions: Tensor = found.action_preds
    return actions


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "padded before"])
def test_actions_are_those_of_transformers(mask: Tensor | None) -> None:
    model, given = ours(), episode()
    theirs = with_weights_of(model)
    real = torch.ones(3, STEPS).bool() if mask is None else mask
    found, wanted = model(**given, mask=mask)[real], said(theirs, given, mask)[real]
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)
    single = {n: x.float() if x.is_floating_point() else x for n, x in given.items()}
    rounded = model.float()(**single, mask=mask)[real]
    other = said(theirs.float(), single, mask)[real]
    torch.testing.assert_close(rounded, other, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_transformers() -> None:
    """Compare the gradients of the squared error on real actions."""
    model, given = ours(), episode()
    theirs: Any = with_weights_of(model)
    theirs.zero_grad()
    for actions in (model(**given, mask=MASK), said(theirs, given, MASK)):
        (actions - given[ACTIONS])[MASK].square().mean().backward()
    pairs = {
        "state.weight": theirs.embed_state.weight.grad,
        "asked.weight": theirs.embed_return.weight.grad,
        "action.weight": theirs.embed_action.weight.grad,
        "time.weight": theirs.embed_timestep.weight.grad,
        "trunk.blocks.0.mlp.expand.weight": theirs.encoder.h[0].mlp.c_fc.weight.grad.T,
    }
    own = dict(model.named_parameters())
    for name, wanted in pairs.items():
        torch.testing.assert_close(own[name].grad, wanted, rtol=1e-9, atol=1e-10)

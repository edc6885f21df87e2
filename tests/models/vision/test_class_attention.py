"""Check that a class token attends to itself and the patches, which stay unchanged."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models.sublayers import FeedForward, StackConfig
from bakeoff.models.vision.class_attention import ClassAttention, ClassBlock
from tests.models.small_models import tokens

DIM, HEADS = 8, 2
CONFIG = StackConfig(layer_scale=0.5, stochastic_depth=0.9, stochastic_depth_rule="constant")


def attention(bias: bool = True) -> ClassAttention:
    torch.manual_seed(0)
    return ClassAttention(DIM, HEADS, bias=bias).double()


def rows_of(linear: nn.Linear, head: int, x: Tensor) -> Tensor:
    """Project to one head by its rows."""
    rows = slice(head * DIM // HEADS, (head + 1) * DIM // HEADS)
    return x @ linear.weight[rows].T + (0 if linear.bias is None else linear.bias[rows])


def by_loops(module: ClassAttention, x: Tensor) -> Tensor:
    """Compute the paper's section 3, head by head, with the query of the first token."""
    heads = []
    for head in range(HEADS):
        query = rows_of(module.query, head, x[0])
        scores = [math.sqrt(HEADS / DIM) * query @ rows_of(module.key, head, token) for token in x]
        weights = torch.stack(scores).softmax(dim=0)
        values = [rows_of(module.value, head, token) for token in x]
        heads.append(sum(w * v for w, v in zip(weights, values, strict=True)))
    mixed: Tensor = module.output(torch.cat(heads))
    return mixed


@pytest.mark.parametrize("bias", [False, True])
def test_it_is_the_papers_loop(bias: bool) -> None:
    module, x = attention(bias), tokens(5, DIM)
    expected = torch.stack([by_loops(module, each) for each in x]).unsqueeze(1)
    torch.testing.assert_close(module(x), expected)
    assert (module.query.bias is not None) == bias
    assert module.output.bias is not None


def block(**changes: Any) -> ClassBlock:
    config = replace(CONFIG, **changes)
    mlp = None if config.feed_forward == "none" else FeedForward(DIM, config)
    made = ClassBlock(attention(), config, mlp=mlp).double()
    for parameter in made.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return made


@pytest.mark.parametrize("placement", ["pre", "post", "res_post"])
@pytest.mark.parametrize("feed_forward", ["gelu", "none"])
def test_a_block_is_its_formula_in_training_too(placement: str, feed_forward: str) -> None:
    """Check that training drops no branch, whatever the drop rate of the patches' blocks."""
    made, x = block(norm_placement=placement, feed_forward=feed_forward), tokens(5, DIM)
    first, patches, expected = x[:, :1], x[:, 1:], []
    for each in x:
        read = made.norm(each) if placement == "pre" else each
        taken = by_loops(made.attention, read)
        expected.append(step(placement, made.norm, made.sum.scale, each[0], taken))
    summed = torch.stack(expected).unsqueeze(1)
    if made.mlp is not None:
        read = made.mlp_norm(summed) if placement == "pre" else summed
        up = functional.gelu(made.mlp.expand(read))
        summed = step(placement, made.mlp_norm, made.mlp_sum.scale, summed, made.mlp.contract(up))
    torch.testing.assert_close(made.train()(first, patches), summed)


def step(placement: str, norm: nn.Module, scale: Any, x: Tensor, change: Tensor) -> Tensor:
    if placement == "post":
        found: Tensor = norm(x + scale * change)
        return found
    return x + scale * (change if placement == "pre" else norm(change))


def test_keys_and_values_are_of_the_class_token_too() -> None:
    module, x = attention(), tokens(1, DIM, batch=3)
    torch.testing.assert_close(module(x), module.output(module.value(x)))


def test_flops_are_counted() -> None:
    made = block()
    x = tokens(7, DIM, batch=3)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        made(x[:, :1], x[:, 1:])
    kernels = 2 * 2 * 3 * 7 * DIM  # the counter misses fused attention on a CPU
    assert made.flops(7, 3) == counter.get_total_flops() + kernels

"""Compare self-attention on a map with double loops over places."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models import ModelError
from bakeoff.models.vision.map_attention import (
    AugmentedConvolution,
    DistanceLogits,
    GlobalMapAttention,
    LocalMapAttention,
    MapAttentionConfig,
    NonLocal,
)

INPUTS, OUTPUTS, GRID = 6, 8, (3, 5)
PLACES = [(r, c) for r in range(GRID[0]) for c in range(GRID[1])]
X = torch.randn(2, INPUTS, *GRID, generator=torch.Generator().manual_seed(0)).double()
both = pytest.mark.parametrize("is_relative", [True, False])
each_stride = pytest.mark.parametrize("stride", [1, 2])


def built(kind: Any, *, stride: int = 1, **knobs: Any) -> Any:
    config = MapAttentionConfig(**{"heads": 2, **knobs})
    torch.manual_seed(0)
    return moved(kind(INPUTS, OUTPUTS, stride=stride, grid=GRID, config=config))


def moved(module: nn.Module) -> nn.Module:
    """Move every parameter from its initial value, so that scores are far from equal."""
    for parameter in module.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return module.double().eval()


def projected(conv: Any, x: Tensor) -> Tensor:
    """Map every place linearly, `[batch, outputs, rows, columns]`."""
    found = torch.einsum("oi,birc->borc", conv.weight[:, :, 0, 0], x)
    return found if conv.bias is None else found + conv.bias[:, None, None]


def attended(module: Any, x: Tensor, heads: int, score: Any, reach: int = 99) -> Tensor:
    """Attend by loops over heads, queries and keys; the score is `score(query, key, from, to)`."""
    maps = [projected(each, x) for each in (module.query, module.key, module.value)]
    queries, keys, values = maps
    found, width = torch.zeros_like(values), values.shape[1] // heads
    for head in (slice(n * width, (n + 1) * width) for n in range(heads)):
        for image in range(len(x)):
            for r, c in PLACES:
                q = queries[image, head, r, c]
                seen = [(i, j) for i, j in PLACES if max(abs(i - r), abs(j - c)) <= reach]
                scores = [score(q, keys[image, head, i, j], (r, c), (i, j)) for i, j in seen]
                weights = torch.stack(scores).softmax(dim=0)
                found[image, head, r, c] = sum(
                    weight * values[image, head, i, j]
                    for weight, (i, j) in zip(weights, seen, strict=True)
                )
    return found


def squares(x: Tensor, stride: int) -> Tensor:
    """Average squares of two by two, or the remainder at the edges."""
    if stride == 1:
        return x
    rows = [x[:, :, r : r + 2] for r in range(0, x.shape[2], 2)]
    return torch.stack(
        [
            torch.stack(
                [row[:, :, :, c : c + 2].mean(dim=(2, 3)) for c in range(0, x.shape[3], 2)], dim=2
            )
            for row in rows
        ],
        dim=2,
    )


def by_distance(module: GlobalMapAttention, is_relative: bool) -> Any:
    """Return q . (k + r_row + r_column) / sqrt(d); tables begin at the most negative distance."""

    def score(q: Tensor, k: Tensor, start: tuple[int, int], end: tuple[int, int]) -> Tensor:
        if is_relative:
            assert module.row is not None
            assert module.column is not None
            down, across = end[0] - start[0], end[1] - start[1]
            k = k + module.row.table[down + GRID[0] - 1]
            k = k + module.column.table[across + GRID[1] - 1]
        return q @ k / len(q) ** 0.5

    return score


@both
@each_stride
def test_global_attention_is_the_double_loop(is_relative: bool, stride: int) -> None:
    module = built(GlobalMapAttention, stride=stride, has_relative_logits=is_relative)
    expected = attended(module, X, 2, by_distance(module, is_relative))
    torch.testing.assert_close(module(X), squares(expected, stride), rtol=0, atol=1e-12)


@both
@each_stride
@pytest.mark.parametrize("window", [3, 7])
def test_local_attention_is_the_double_loop(is_relative: bool, stride: int, window: Any) -> None:
    module = built(
        LocalMapAttention, stride=stride, has_relative_logits=is_relative, attention_window=window
    )
    reach = window // 2

    def score(q: Tensor, k: Tensor, start: tuple[int, int], end: tuple[int, int]) -> Tensor:
        if is_relative:
            row = module.row[end[0] - start[0] + reach]
            k = k + torch.cat([row, module.column.table[end[1] - start[1] + reach]])
        return q @ k

    expected = attended(module, X, 2, score, reach)
    torch.testing.assert_close(module(X), squares(expected, stride), rtol=0, atol=1e-12)


@each_stride
def test_an_augmented_convolution_is_one_beside_attention(stride: int) -> None:
    module = built(AugmentedConvolution, stride=stride, attention_share=0.5)
    inner = module.attention
    mixed = squares(attended(inner, X, 2, by_distance(inner, True)), stride)
    conv = functional.conv2d(X, module.conv.weight, padding=1, stride=stride)
    expected = torch.cat([conv, projected(module.output, mixed)], dim=1)
    assert conv.shape[1] == mixed.shape[1] == OUTPUTS // 2
    torch.testing.assert_close(module(X), expected, rtol=0, atol=1e-12)


def test_a_share_is_rounded_to_whole_heads() -> None:
    for share, attending in [(0.01, 2), (0.3, 2), (0.4, 4), (0.74, 6)]:
        module = built(AugmentedConvolution, attention_share=share)
        assert module.conv.out_channels == OUTPUTS - attending
    with pytest.raises(ModelError, match=r"attention_share=0\.9 with heads=2 leaves none of 8"):
        built(AugmentedConvolution, attention_share=0.9)


def test_a_non_local_block_adds_what_all_places_give() -> None:
    torch.manual_seed(0)
    module = NonLocal(INPUTS)
    assert torch.equal(module(X.float()), X.float())  # it starts as the identity
    norm = cast("NonLocal", moved(module)).norm
    for buffer in (norm.running_mean, norm.running_var):
        assert buffer is not None
        buffer.data += torch.rand_like(buffer)
    mixed = attended(module, X, 1, lambda q, k, _, __: q @ k / len(q) ** 0.5)
    change = functional.batch_norm(
        projected(module.output, mixed), norm.running_mean, norm.running_var, norm.weight, norm.bias
    )
    torch.testing.assert_close(module(X), X + change, rtol=0, atol=1e-12)


def test_a_distance_is_from_the_query_to_the_key() -> None:
    """Check a table whose rows are their distances: it gives back the distances."""
    logits = DistanceLogits(4, 3, 1)
    logits.table.data = torch.arange(-3.0, 4.0)[:, None]
    found = logits(torch.ones(1, 4, 1))[0]
    assert found[0].tolist() == [0, 1, 2, 3]
    assert found[3].tolist() == [-3, -2, -1, 0]


def test_heads_must_fit() -> None:
    with pytest.raises(ModelError, match="heads=3 does not divide the 8 channels of a map"):
        built(GlobalMapAttention, heads=3)
    with pytest.raises(ModelError, match="heads=8 leaves 1 channels a head, not even"):
        built(LocalMapAttention, heads=8)
    assert built(LocalMapAttention, heads=8, has_relative_logits=False)(X).shape[1] == OUTPUTS

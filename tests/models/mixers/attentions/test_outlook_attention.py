"""Check that a centre gives the weights between the places around it, on a grid."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from bakeoff.models import Mixer, ModelError, build_mixer, build_model
from tests.models.small_models import spec, tokens

DIM, HEADS = 8, 2


def on_grid(rows: int, columns: int, **knobs: Any) -> Any:
    torch.manual_seed(0)
    mixer = build_mixer(
        "outlook_attention", dim=DIM, heads=HEADS, max_length=rows * columns, **knobs
    )
    mixer.take_grid((rows, columns), 0)
    return mixer.double()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("rows", "columns", "side"), [(3, 5, 3), (4, 4, 3), (5, 3, 5)])
def test_it_equals_its_loop_and_sees_what_it_says(
    rows: int, columns: int, side: int, stride: int
) -> None:
    mixer, length = on_grid(rows, columns, window_size=side, stride=stride), rows * columns
    x = tokens(length, DIM).requires_grad_()
    mixed, slow, random = mixer(x), mixer.reference(x), tokens(length, DIM, seed=4)
    torch.testing.assert_close(mixed, slow)
    torch.testing.assert_close(
        *(torch.autograd.grad((y * random).sum(), x, retain_graph=True)[0] for y in (mixed, slow))
    )


@pytest.mark.parametrize("stride", [1, 2])
def test_padding_on_a_grid_opens_no_window_and_has_no_share_of_a_mean(stride: int) -> None:
    mixer, x = on_grid(4, 5, stride=stride), tokens(20, DIM)
    mask = torch.rand(2, 20, generator=torch.Generator().manual_seed(6)) < 0.5
    garbage = x.masked_fill(~mask.unsqueeze(-1), torch.nan)
    torch.testing.assert_close(mixer(garbage, mask)[mask], mixer.reference(x, mask)[mask])


def test_the_centre_alone_decides_the_weights() -> None:
    mixer = on_grid(3, 3)
    x = tokens(9, DIM, batch=1)
    other = x.clone()
    other[:, [0, 1, 2, 3, 5, 6, 7, 8]] += 1
    ours, theirs = (mixer._weights(each, None, (3, 3))[:, 4] for each in (x, other))
    assert torch.equal(ours, theirs)
    moved = x.clone()
    moved[:, 4] += 1
    assert not torch.allclose(mixer._weights(moved, None, (3, 3))[:, 4], ours)


def test_windows_are_summed() -> None:
    """Check equal weights and values of one: each window adds its share inside the grid."""
    mixer, x = on_grid(3, 4, bias=True), tokens(12, DIM)
    for linear in (mixer.value, mixer.weights):
        linear.weight.data.zero_()
        linear.bias.data.fill_(1.0)
    mixer.output.weight.data, mixer.output.bias.data = torch.eye(DIM).double(), 0 * x[0, 0]
    inside = torch.tensor([[4, 6, 6, 4], [6, 9, 9, 6], [4, 6, 6, 4]]).double() / 9
    padded = nn.functional.pad(inside, (1, 1, 1, 1))
    expected = padded.unfold(0, 3, 1).unfold(1, 3, 1).sum(dim=(2, 3)).flatten()
    found = mixer(x)
    torch.testing.assert_close(found, expected[:, None].expand_as(found))


def test_the_scale_is_that_of_a_head() -> None:
    mixer, x = on_grid(2, 2), tokens(4, DIM)
    logits = mixer.weights(x).view(2, 4, HEADS, 9, 9)
    weights = mixer._weights(x, None, (2, 2))
    torch.testing.assert_close(weights, (logits / (DIM // HEADS) ** 0.5).softmax(dim=-1))


def test_in_a_vision_transformer_it_gets_the_grid_of_patches() -> None:
    given = {"pooling": "mean", "position": "none"}
    model: Any = build_model(spec("vit", "outlook_attention", **given))
    mixers: list[Mixer] = [block.mixer for block in model.trunk.blocks]
    assert [mixer.grid for mixer in mixers] == [(6, 8), (6, 8)]
    with pytest.raises(ModelError, match="a class token has no place on it; give pooling='mean'"):
        build_model(spec("vit", "outlook_attention"))


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"window_size": 1}, "window_size=1 is not an odd number of at least 3"),
        ({"window_size": 4}, "window_size=4 is not an odd number of at least 3"),
        ({"stride": 0}, "stride=0 is below 1"),
        ({"stride": 3}, "stride=3 is above 2, half of the window_size=3"),
        ({"heads": 3}, "heads=3 does not divide dim=8"),
    ],
)
def test_what_cannot_be_is_refused(knobs: dict[str, int], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build_mixer("outlook_attention", dim=DIM, **knobs)


def test_another_number_of_tokens_than_its_grids_is_refused() -> None:
    with pytest.raises(ModelError, match="takes the 2 x 3 tokens of its grid, not 5"):
        on_grid(2, 3)(tokens(5, DIM))

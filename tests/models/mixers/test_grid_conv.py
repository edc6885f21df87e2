"""Check the neighbours of a token, above, below and beside it; a class token has no neighbours."""

import pytest
import torch
from torch import nn

from bakeoff.models import Mixer, ModelError, ModelSpec, build_mixer, build_model


def on_grid(rows: int, columns: int, **knobs: int) -> Mixer:
    mixer = build_mixer("grid_conv", dim=4, max_length=rows * columns, **knobs).double()
    mixer.take_grid((rows, columns), 0)
    return mixer


@pytest.mark.parametrize(("rows", "columns", "side"), [(3, 4, 3), (2, 5, 7), (5, 5, 5)])
def test_it_equals_its_loop(rows: int, columns: int, side: int) -> None:
    mixer, length = on_grid(rows, columns, window_size=side), rows * columns
    x = torch.randn(2, length, 4, dtype=torch.float64)
    torch.testing.assert_close(mixer(x), mixer.reference(x))


def test_it_is_torchs_convolution_of_the_image() -> None:
    mixer = on_grid(6, 5, window_size=3)
    x = torch.randn(2, 30, 4, dtype=torch.float64)
    conv = nn.Conv2d(4, 4, 3, padding=1, groups=4).double()
    conv.load_state_dict(mixer.conv.state_dict())
    image = x.reshape(2, 6, 5, 4).permute(0, 3, 1, 2)
    torch.testing.assert_close(mixer(x), conv(image).permute(0, 2, 3, 1).reshape(2, 30, 4))


def _vit(mixer: str, pooling: str) -> nn.Module:
    spec = ModelSpec(
        architecture="vit",
        mixer=mixer,
        knobs={},
        position="none",
        dim=8,
        depth=2,
        length=48,
        input_kind="image",
        input_size=1,
        grid=(8, 6),
        output_size=3,
        settings={"patch": 2, "pooling": pooling},
    )
    return build_model(spec)


def test_in_a_vision_transformer_it_gets_the_grid_of_patches() -> None:
    model = _vit("grid_conv", "mean")
    assert [block.mixer.grid for block in model.trunk.blocks] == [(4, 3), (4, 3)]
    assert model(torch.randn(2, 8, 6, 1)).shape == (2, 3)


def test_a_class_token_has_no_place_on_a_grid() -> None:
    with pytest.raises(ModelError, match="a class token has no place on it; give pooling='mean'"):
        _vit("grid_conv", "class_token")
    assert _vit("attention", "class_token") is not None


def test_another_number_of_tokens_than_its_grids_is_refused() -> None:
    with pytest.raises(ModelError, match="takes the 2 x 3 tokens of its grid, not 5"):
        on_grid(2, 3)(torch.zeros(1, 5, 4, dtype=torch.float64))


@pytest.mark.parametrize("side", [1, 4])
def test_a_square_without_a_centre_is_refused(side: int) -> None:
    with pytest.raises(ModelError, match=f"window_size={side} is not an odd number of at least 3"):
        build_mixer("grid_conv", window_size=side)

"""Compare a Perceiver with the paper's loop; check its latents, positions and weight sharing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models import ModelError, build_shapes, mixer_class
from bakeoff.models.architectures.perceiver import CrossAttend, Perceiver, Stage, fourier_features
from bakeoff.models.stack import Block
from tests.models.small_models import build, inputs, spec

SMALL: dict[str, Any] = {"latents": 5, "cross_attends": 3, "bands": 3, "dim": 8, "length": 9}
SPEC = spec("perceiver", "attention", **SMALL)
MASK = torch.arange(9) < torch.tensor([[9], [4], [0]])


def double(**changes: Any) -> Perceiver:
    """Build in float64 and evaluation mode; small latents would attend to all places alike."""
    model = build(spec("perceiver", **{**SMALL, **changes})).double().eval()
    assert isinstance(model, Perceiver)
    nn.init.normal_(model.latents.table, generator=torch.Generator().manual_seed(5))
    return model


def normed(norm: nn.Module, x: Tensor) -> Tensor:
    centred = x - x.mean()
    scaled = centred / (centred.square().mean() + 1e-5).sqrt()
    return scaled * norm.weight + norm.bias


def fed_forward(block: Block, z: Tensor) -> Tensor:
    return z + block.mlp(normed(block.mlp_norm, z))


def looked(cross: CrossAttend, z: Tensor, seen: Tensor) -> Tensor:
    """Return one latent after cross-attention to its inputs `seen`."""
    keys = cross.attention
    x = torch.stack([normed(cross.input_norm, each) for each in seen])
    query = keys.query(normed(cross.mixer_norm, z))
    terms = torch.exp(keys.key(x) @ query / math.sqrt(x.shape[1]))
    found = (terms / terms.sum()) @ keys.value(x)
    return fed_forward(cross, z + keys.output(found))


def by_loop(model: Perceiver, x: Tensor) -> Tensor:
    """Return the logits of one sequence without padding, `[time, width]`."""
    latents = list(model.latents.table)
    for number in range(model.config.cross_attends):
        is_first = number == 0 or model.config.share == "all"
        own = number if model.config.share == "none" else 0 if is_first else 1
        stage = model.stages[own]
        assert isinstance(stage, Stage)
        latents = [looked(stage.cross, z, x) for z in latents]
        for block in stage.blocks:
            norms = torch.stack([normed(block.mixer_norm, z) for z in latents])
            mixed = block.mixer.reference(norms[None])[0]
            latents = [fed_forward(block, z + m) for z, m in zip(latents, mixed, strict=True)]
    return model.head(sum(normed(model.norm, z) for z in latents) / len(latents))


@pytest.mark.parametrize("share", ["paper", "all", "none"])
def test_it_is_the_papers_loop(share: str) -> None:
    model, tokens = double(share=share), inputs(SPEC, length=9)
    read = model.read(tokens)
    found = model(tokens, MASK)
    for b, length in enumerate((9, 4)):
        torch.testing.assert_close(found[b], by_loop(model, read[b, :length]), rtol=0, atol=1e-9)


def test_features_of_places_are_written_out() -> None:
    """Check rows -1, 0, 1 and columns -1, 1; frequencies run from 1 to half an axis's places."""
    found = fourier_features((3, 2), bands=3)
    expected = []
    for row in (-1, 0, 1):
        for column in (-1, 1):
            each = []
            for p, highest in ((row, 1.5), (column, 1.0)):
                angles = [math.pi * p * f for f in (1, (1 + highest) / 2, highest)]
                each += [*map(math.sin, angles), *map(math.cos, angles), p]
            expected.append(each)
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-6)
    assert fourier_features((3, 2), bands=0).shape == (6, 0)


def test_without_places_it_reads_a_bag_and_with_them_a_bag_of_pairs() -> None:
    shuffle = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    tokens, blind = inputs(SPEC, length=9), double(bands=0)
    torch.testing.assert_close(blind(tokens), blind(tokens[:, shuffle]))
    model = double()
    assert not torch.allclose(model(tokens), model(tokens[:, shuffle]), rtol=0, atol=1e-4)
    read = model.read(tokens)
    torch.testing.assert_close(model.attend(read), model.attend(read[:, shuffle]))


def test_its_cost_is_linear_in_the_inputs_and_depth_costs_the_same_at_any_length() -> None:
    shallow, deep = (build(spec("perceiver", latents=5, length=999, depth=d)) for d in (1, 3))
    steps = [shallow.flops(n + 100) - shallow.flops(n) for n in (1, 100, 800)]
    assert steps[0] == steps[1] == steps[2] > 0
    blocks = [deep.flops(n) - shallow.flops(n) for n in (1, 999)]
    assert blocks[0] == blocks[1] > 0


def test_sharing_saves_parameters_and_computes_keys_once_for_all() -> None:
    models = {
        s: build(spec("perceiver", share=s, cross_attends=4)) for s in ("all", "paper", "none")
    }
    counts = [model.num_parameters() for model in models.values()]
    stage = sum(p.numel() for p in models["all"].stages.parameters())
    assert counts == [counts[0], counts[0] + stage, counts[0] + 3 * stage]
    once = models["all"].stages[0].cross.flops_of_inputs(33)
    flops = [model.flops(33) for model in models.values()]
    assert flops == [flops[0], flops[0] + once, flops[0] + 3 * once]


@pytest.mark.parametrize("mixer", ["plain_attention", "performer", "mlp_mixer", "fnet"])
def test_other_mixers_stand_among_the_latents(mixer: str) -> None:
    model = double(mixer=mixer, knobs={})
    assert isinstance(model.stages[0].blocks[0].mixer, mixer_class(mixer))
    assert model(inputs(SPEC, length=9), MASK).isfinite().all()


def of_image(grid: tuple[int, int], **changes: Any) -> Perceiver:
    sizes = {"input_kind": "image", "input_size": 2, "grid": grid, "length": math.prod(grid)}
    return double(**sizes, **changes)


@pytest.mark.parametrize(("patch", "grid"), [(1, (3, 2)), (2, (6, 4))])
def test_an_image_is_its_pixels_beside_their_rows_and_columns(
    patch: int, grid: tuple[int, int]
) -> None:
    """Check pixels, or three rows and two columns of patches, whose pixels are read row by row."""
    model, images = of_image(grid, patch=patch), torch.randn(2, *grid, 2).double()
    expected = []
    for row in range(3):
        for column in range(2):
            inside = [(patch * row + i, patch * column + j) for i, j in np.ndindex(patch, patch)]
            pixels = [images[:, i, j] for i, j in inside]
            place = fourier_features((3, 2), bands=3)[2 * row + column].double()
            expected.append(torch.cat([*pixels, place.expand(2, -1)], dim=1))
    read = model.read(images)
    assert torch.equal(read, torch.stack(expected, dim=1))
    found = torch.stack([by_loop(model, each) for each in read])
    torch.testing.assert_close(model(images), found, rtol=0, atol=1e-9)


@pytest.mark.parametrize("patch", [1, 2])
def test_flops_of_an_image_are_those_of_its_patches(patch: int) -> None:
    model, counter = of_image((6, 4), patch=patch), FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter, torch.no_grad():
        model(torch.randn(3, 6, 4, 2).double())
    assert model.flops(24, batch=3) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"latents": 0}, "perceiver: latents=0 is not at least 1"),
        ({"cross_attends": 0}, "perceiver: cross_attends=0 is not at least 1"),
        ({"bands": -1}, "perceiver: bands=-1 is not at least 0"),
        ({"residual": "reversible"}, "perceiver: residual='reversible' knows no cross-attends"),
        ({"input_width": 4, "input_kind": "vectors"}, "input_width=4 is of tokens, and vectors is"),
        ({"patch": 0}, "perceiver: patch=0 is not at least 1"),
        ({"patch": 2}, "perceiver: patch=2 is of images, not of tokens"),
        ({"input_kind": "image", "grid": None}, "perceiver: patch=1 does not divide an image of"),
        ({"input_kind": "image", "patch": 7}, "patch=7 does not divide an image of 24 x 32 pixels"),
        ({"position": "learned"}, "perceiver has no knob 'position'"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build_shapes(spec("perceiver", **changes))


def test_more_inputs_than_places_are_refused() -> None:
    with pytest.raises(ModelError, match="takes at most length=9, not 10"):
        double()(inputs(SPEC, length=10))

"""Check that our Perceiver equals the encoders of `transformers`, applied one after the other.

Theirs attends to its inputs once. Applied again to its own latents, it is the paper's loop with all
weights shared; one encoder followed by repeats of another is the paper's own form.
The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelSpec, build_model
from bakeoff.models.architectures.perceiver import Perceiver, Stage
from bakeoff.models.stack import Block

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the package raises warnings about its own parts
]

DIM, LATENTS, LENGTH, HEADS = 16, 5, 9, 4
SIZES = {"input_kind": "tokens", "input_size": 7, "length": LENGTH}
MASK = torch.arange(LENGTH) < torch.tensor([[LENGTH], [4], [1]])
TOKENS = torch.randint(7, (3, LENGTH), generator=torch.Generator().manual_seed(2))


def perceiver(sizes: dict[str, Any] = SIZES, **settings: Any) -> Perceiver:
    torch.manual_seed(0)
    model = build_model(
        ModelSpec(
            architecture="perceiver",
            mixer="attention",
            knobs={"heads": HEADS, "bias": True},
            dim=DIM,
            depth=2,
            output_size=3,
            **sizes,
            settings={"latents": LATENTS, "bands": 3, **settings},
        )
    )
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return cast("Perceiver", model.double().eval())


def encoder_of(stage: Stage, width: int) -> nn.Module:
    """Build their encoder with the parameters of a stage of ours."""
    from transformers import PerceiverConfig
    from transformers.models.perceiver.modeling_perceiver import PerceiverEncoder

    config = PerceiverConfig(
        d_latents=DIM,
        num_latents=LATENTS,
        num_blocks=1,
        num_self_attends_per_block=2,
        num_self_attention_heads=HEADS,
        num_cross_attention_heads=1,
        hidden_act="gelu",
        cross_attention_widening_factor=4,
        self_attention_widening_factor=4,
        attention_probs_dropout_prob=0.0,
    )
    theirs = PerceiverEncoder(config, kv_dim=width).double().eval()
    take(theirs.cross_attention, stage.cross)
    theirs.cross_attention.attention.self.layernorm2.load_state_dict(
        stage.cross.input_norm.state_dict()
    )
    for layer, block in zip(theirs.self_attends, stage.blocks, strict=True):
        take(layer, cast("Block", block))
    return theirs


def take(layer: Any, block: Block) -> None:
    attention, mixer, mlp = layer.attention, cast("Any", block.mixer), cast("Any", block.mlp)
    pairs = [
        (attention.self.layernorm1, block.mixer_norm),
        (attention.self.query, mixer.query),
        (attention.self.key, mixer.key),
        (attention.self.value, mixer.value),
        (attention.output.dense, mixer.output),
        (layer.layernorm, block.mlp_norm),
        (layer.mlp.dense1, mlp.expand),
        (layer.mlp.dense2, mlp.contract),
    ]
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())


@pytest.mark.parametrize("share", ["paper", "all", "none"])
def test_latents_are_those_of_transformers(share: str) -> None:
    model = perceiver(share=share, input_width=6)
    read = model.read(TOKENS)
    hidden: Tensor = model.latents(len(TOKENS))
    bias = torch.zeros(3, 1, 1, LENGTH).double().masked_fill(~MASK[:, None, None], -1e30)
    with torch.no_grad():
        for number in range(3):
            encoder = encoder_of(model.stage_of(number), read.shape[2])
            hidden = encoder(hidden, inputs=read, inputs_mask=bias).last_hidden_state
        found = model.attend(read, MASK)
    assert hidden.std() > 0.5
    torch.testing.assert_close(found, model.norm(hidden), rtol=0, atol=1e-9)


@pytest.mark.parametrize("patch", [1, 2])
def test_an_image_is_read_as_by_transformers(patch: int) -> None:
    """Reorder the features: theirs has both axes' coordinates, all sines, then all cosines."""
    from transformers.models.perceiver.modeling_perceiver import PerceiverImagePreprocessor

    grid, images = (4, 6), torch.randn(3, 4, 6, 2, dtype=torch.float64)
    sizes: dict[str, Any] = {"input_kind": "image", "input_size": 2, "length": 24, "grid": grid}
    model = perceiver(sizes, patch=patch)
    theirs = PerceiverImagePreprocessor(
        None,
        prep_type="patches",
        spatial_downsample=patch,
        position_encoding_type="fourier",
        fourier_position_encoding_kwargs={
            "num_bands": 3,
            "max_resolution": [side // patch for side in grid],
        },
    )
    pixels, places = theirs(images.movedim(3, 1))[0].split([2 * patch**2, 14], dim=2)
    coordinates, waves = places[..., :2], places[..., 2:].unflatten(2, (2, 2, 3))
    ordered = torch.cat([waves.transpose(2, 3).flatten(3), coordinates.unsqueeze(3)], dim=3)
    expected = torch.cat([pixels, ordered.flatten(2)], dim=2)
    torch.testing.assert_close(model.read(images), expected, rtol=0, atol=1e-5)

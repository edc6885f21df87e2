"""Check that our Swin transformers equal those of `timm` and of `transformers`.

If windows do not fill a map, tokens of both packages attend to the padding, and timm pads after the
roll; such maps are compared with `transformers`, with our mask added to its own.
The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelSpec, build_model
from tests.models.full_size import full_size
from tests.parity.without_torchvision import timm

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the packages raise warnings about their own parts
]

# The sides of the image in pixels, of a patch and of a window, by the case that they test.
SIZES = {
    "windows fill the maps": (32, 2, 4),
    "the last map is smaller than a window": (24, 2, 6),
    "an odd map is merged": (28, 4, 7),
}
BOTH = pytest.mark.parametrize("name", ["swin", "swin_v2"])
TOLERANCES = {"swin": 1e-9, "swin_v2": 1e-6}  # both packages compute relative steps in float32
DIM, DEPTHS, HEADS = 8, (2, 2, 3), (2, 4, 4)


def model_of(name: str, side: int, patch: int, window: int) -> nn.Module:
    torch.manual_seed(0)
    return moved(
        build_model(
            ModelSpec(
                architecture=name,
                dim=DIM,
                length=side**2,
                grid=(side, side),
                input_kind="image",
                input_size=3,
                output_size=5,
                settings={
                    "patch": patch,
                    "window": window,
                    "depths": "-".join(map(str, DEPTHS)),
                    "heads": "-".join(map(str, HEADS)),
                },
            )
        ).double(),
        0.3,
    )


def moved(model: nn.Module, by: float) -> nn.Module:
    for parameter in model.parameters():
        parameter.data += by * torch.randn_like(parameter)
    return model.eval()


def images(side: int, dtype: torch.dtype, batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, side, side, 3, generator=generator).to(dtype)


def renamed(state: dict[str, Tensor], names: dict[str, str]) -> dict[str, Tensor]:
    """Rename each key by the first pattern that matches."""
    found = {}
    for key, value in state.items():
        pattern = next(pattern for pattern in names if re.fullmatch(pattern, key))
        found[re.sub(pattern, names[pattern], key)] = value
    return found


def as_conv(state: dict[str, Tensor], patch: int) -> dict[str, Tensor]:
    """Reshape the map of patches to the kernel of a convolution."""
    weight = state["embedding.map.weight"]
    kernel = weight.reshape(len(weight), patch, patch, -1).permute(0, 3, 1, 2)
    return {**state, "embedding.map.weight": kernel}


TO_TIMM = {
    r"embedding\.map\.(.*)": r"patch_embed.proj.\1",
    r"embedding_norm\.(.*)": r"patch_embed.norm.\1",
    r"stages\.(\d+)\.merging\.norm\.(.*)": r"layers.\1.downsample.norm.\2",
    r"stages\.(\d+)\.merging\.map\.(.*)": r"layers.\1.downsample.reduction.\2",
    r"stages\.(.*)\.mixer_norm\.(.*)": r"layers.\1.norm1.\2",
    r"stages\.(.*)\.mlp_norm\.(.*)": r"layers.\1.norm2.\2",
    r"stages\.(.*)\.mlp\.expand\.(.*)": r"layers.\1.mlp.fc1.\2",
    r"stages\.(.*)\.mlp\.contract\.(.*)": r"layers.\1.mlp.fc2.\2",
    r"stages\.(.*)\.mixer\.output\.(.*)": r"layers.\1.attn.proj.\2",
    r"stages\.(.*)\.mixer\.relative_bias\.table": r"layers.\1.attn.relative_position_bias_table",
    r"stages\.(.*)\.mixer\.relative_bias\.expand\.(.*)": r"layers.\1.attn.cpb_mlp.0.\2",
    r"stages\.(.*)\.mixer\.relative_bias\.contract\.(.*)": r"layers.\1.attn.cpb_mlp.2.\2",
    r"stages\.(.*)\.mixer\.log_factor": r"layers.\1.attn.logit_scale",
    r"stages\.(.*)\.mixer\.(query|key|value)\.(.*)": r"layers.\1.attn.\2.\3",
    r"head\.(.*)": r"head.fc.\1",
    r"norm\.(.*)": r"norm.\1",
}


def to_timm(model: nn.Module, patch: int) -> dict[str, Tensor]:
    state = renamed(as_conv(model.state_dict(), patch), TO_TIMM)
    for query in [key for key in state if key.endswith("query.weight")]:
        before = query.removesuffix("query.weight")
        three = [f"{before}{part}" for part in ("query", "key", "value")]
        state[f"{before}qkv.weight"] = torch.cat([state.pop(f"{part}.weight") for part in three])
        if f"{three[1]}.bias" in state:
            state[f"{before}qkv.bias"] = torch.cat([state.pop(f"{part}.bias") for part in three])
        else:
            state[f"{before}q_bias"] = state.pop(f"{three[0]}.bias")
            state[f"{before}v_bias"] = state.pop(f"{three[2]}.bias")
            state[f"{before}logit_scale"] = state[f"{before}logit_scale"][:, None, None]
    return state


def class_of_timm(name: str) -> Any:
    models = timm().models
    return models.SwinTransformer if name == "swin" else models.SwinTransformerV2


@BOTH
@pytest.mark.parametrize("size", SIZES)
def test_logits_and_gradients_are_those_of_timm(name: str, size: str) -> None:
    side, patch, window = SIZES[size]
    model = model_of(name, side, patch, window)
    theirs = class_of_timm(name)(
        img_size=side,
        patch_size=patch,
        num_classes=5,
        embed_dim=DIM,
        depths=DEPTHS,
        num_heads=HEADS,
        window_size=window,
    )
    theirs = theirs.double().eval()
    theirs.load_state_dict(to_timm(model, patch))
    x = images(side, torch.float64).requires_grad_()
    found, expected = model(x), theirs(x.permute(0, 3, 1, 2))
    assert expected.std() > 0.3
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCES[name])
    ours, timms = (torch.autograd.grad(y.square().sum(), x)[0] for y in (found, expected))
    assert timms.std() > 1e-2
    torch.testing.assert_close(ours, timms, rtol=0, atol=10 * TOLERANCES[name])


@pytest.mark.parametrize(
    ("preset", "entry"),
    [("swin_tiny", "swin_tiny_patch4_window7_224"), ("swin_v2_tiny", "swinv2_tiny_window8_256")],
)
def test_a_preset_computes_what_timm_computes(preset: str, entry: str) -> None:
    """Compare at a quarter of the sides and of the width; at full size they have agreed, too."""
    torch.manual_seed(0)
    spec = full_size(preset, side=full_size(preset).grid[0] // 4, dim=24)
    model = moved(build_model(spec), 0.1)
    theirs = timm().create_model(entry, img_size=spec.grid, embed_dim=24).eval()
    theirs.load_state_dict(to_timm(model, 4))
    x = images(spec.grid[0], torch.float32)
    with torch.no_grad():
        found, expected = model(x), theirs(x.permute(0, 3, 1, 2))
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


FIRST = r"encoder.layers.\1"
TO_TRANSFORMERS = {
    r"embedding\.map\.(.*)": r"embeddings.patch_embeddings.projection.\1",
    r"embedding_norm\.(.*)": r"embeddings.norm.\1",
    r"stages\.(\d+)\.merging\.norm\.(.*)": rf"{FIRST}.downsample.norm.\2",
    r"stages\.(\d+)\.merging\.map\.(.*)": rf"{FIRST}.downsample.reduction.\2",
    r"stages\.(.*)\.mixer_norm\.(.*)": rf"{FIRST}.layernorm_before.\2",
    r"stages\.(.*)\.mlp_norm\.(.*)": rf"{FIRST}.layernorm_after.\2",
    r"norm\.(.*)": r"layernorm.\1",
    r"head\.(.*)": r"head.\1",
}
MORE = {
    "swin": {
        r"stages\.(.*)\.mlp\.expand\.(.*)": rf"{FIRST}.mlp.fc1.\2",
        r"stages\.(.*)\.mlp\.contract\.(.*)": rf"{FIRST}.mlp.fc2.\2",
        r"stages\.(.*)\.mixer\.relative_bias\.table": (
            rf"{FIRST}.attention.relative_position_bias.relative_position_bias_table"
        ),
        r"stages\.(.*)\.mixer\.(output|query|key|value)(.*)": rf"{FIRST}.attention.\2_proj\3",
    },
    "swin_v2": {
        r"stages\.(.*)\.mlp\.expand\.(.*)": rf"{FIRST}.intermediate.dense.\2",
        r"stages\.(.*)\.mlp\.contract\.(.*)": rf"{FIRST}.output.dense.\2",
        r"stages\.(.*)\.mixer\.relative_bias\.expand(.*)": (
            rf"{FIRST}.attention.self.continuous_position_bias_mlp.0\2"
        ),
        r"stages\.(.*)\.mixer\.relative_bias\.contract(.*)": (
            rf"{FIRST}.attention.self.continuous_position_bias_mlp.2\2"
        ),
        r"stages\.(.*)\.mixer\.log_factor": rf"{FIRST}.attention.self.logit_scale",
        r"stages\.(.*)\.mixer\.output(.*)": rf"{FIRST}.attention.output.dense\2",
        r"stages\.(.*)\.mixer\.(query|key|value)(.*)": rf"{FIRST}.attention.self.\2\3",
    },
}


def to_transformers(name: str, model: nn.Module, patch: int) -> dict[str, Tensor]:
    """Return the state under their names; a merging ends a stage there, and begins one here."""
    state = renamed(as_conv(model.state_dict(), patch), TO_TRANSFORMERS | MORE[name])
    found = {}
    for key, value in state.items():
        stage = re.match(r"encoder\.layers\.(\d+)\.downsample", key)
        if stage:
            key = key.replace(f".{stage[1]}.", f".{int(stage[1]) - 1}.", 1)
        for own in ("query", "key", "value", "output") if name == "swin" else ():
            key = key.replace(f".{own}_proj", f".{own[0]}_proj")
        found[key] = value[:, None, None] if key.endswith("logit_scale") else value
    return {
        f"classifier{key[4:]}" if key.startswith("head") else f"{name.replace('_', '')}.{key}": v
        for key, v in found.items()
    }


def transformers_model(name: str, side: int, patch: int, window: int) -> nn.Module:
    import transformers

    kind = "Swin" if name == "swin" else "Swinv2"
    config = getattr(transformers, f"{kind}Config")(
        image_size=side,
        patch_size=patch,
        embed_dim=DIM,
        depths=list(DEPTHS),
        num_heads=list(HEADS),
        window_size=window,
        num_labels=5,
        attn_implementation="sdpa" if name == "swin" else "eager",  # v1's eager form is in float32
    )
    model: nn.Module = getattr(transformers, f"{kind}ForImageClassification")(config)
    return model.double().eval()


def mask_what_fills_up(theirs: nn.Module) -> None:
    """Make their windows mask the padding, by their own roll and partition."""
    from transformers.models.swin.modeling_swin import window_partition

    for layer in theirs.modules():
        if not hasattr(layer, "set_shift_and_window_size") and not hasattr(layer, "maybe_pad"):
            continue
        if not hasattr(layer, "get_attn_mask"):
            continue  # a merging

        def masked(
            height: int, width: int, layer: Any = layer, own: Any = layer.get_attn_mask, **how: Any
        ) -> Tensor:
            rows, columns = layer.input_resolution
            is_real = torch.zeros(1, height, width, 1, **how)
            is_real[:, :rows, :columns] = 1
            rolled = is_real.roll((-layer.shift_size, -layer.shift_size), dims=(1, 2))
            size = layer.window_size**2
            keys = window_partition(rolled, layer.window_size).view(-1, 1, size)
            penalty = ((keys - 1) * 1e4).expand(-1, size, -1)
            given = own(height, width, **how)
            return penalty if given is None else penalty + given

        layer.get_attn_mask = masked


@BOTH
@pytest.mark.parametrize("is_filled", [False, True], ids=["filled_up", "whole"])
def test_logits_are_those_of_transformers(name: str, is_filled: bool) -> None:
    side, patch, window = (32, 2, 4) if is_filled else (40, 2, 3)
    model = model_of(name, side, patch, window)
    theirs = transformers_model(name, side, patch, window)
    theirs.load_state_dict(to_transformers(name, model, patch))
    if not is_filled:
        mask_what_fills_up(theirs)
    x = images(side, torch.float64)
    with torch.no_grad():
        found, expected = model(x), theirs(x.permute(0, 3, 1, 2)).logits
    assert expected.std() > 0.3
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCES[name])

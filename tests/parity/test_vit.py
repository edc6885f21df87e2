"""Check that ViT, DeiT with two tokens and MLP-Mixer equal those of timm and `transformers`.

Every parameter of ours is moved away from its initial value and copied by name; the images are
wider than high where the package allows it.
The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import Architecture, ModelSpec, build_model
from tests.models.full_size import full_size
from tests.parity.without_torchvision import timm

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the packages raise warnings about their own parts
]

DIM, DEPTH, HEADS, PATCH, CLASSES = 16, 2, 4, 4, 5
SHAPE = {"num_classes": CLASSES, "patch_size": PATCH, "embed_dim": DIM}
OF_TIMM = {
    r"embedding\.map": "patch_embed.proj",
    r"class_token\.vector": "cls_token",
    r"distillation_token\.vector": "dist_token",
    r"trunk\.position\.table": "pos_embed",
    r"trunk\.blocks\.(\d+)\.": r"blocks.\1.",
    r"mixer_norm": "norm1",
    r"mlp_norm": "norm2",
    r"mixer\.output": "attn.proj",
    r"mixer\.expand": "mlp_tokens.fc1",
    r"mixer\.contract": "mlp_tokens.fc2",
    r"mlp\.expand": "mlp.fc1",
    r"mlp\.contract": "mlp.fc2",
    r"trunk\.norm": "norm",
    r"distillation_head": "head_dist",
}
OF_MIXER = {
    r"embedding\.map": "stem.proj",
    r"mlp\.expand": "mlp_channels.fc1",
    r"mlp\.contract": "mlp_channels.fc2",
}
OF_TRANSFORMERS = {
    r"embedding\.map": "embeddings.patch_embeddings.projection",
    r"class_token\.vector": "embeddings.cls_token",
    r"distillation_token\.vector": "embeddings.distillation_token",
    r"trunk\.position\.table": "embeddings.position_embeddings",
    r"trunk\.blocks\.(\d+)\.": r"layers.\1.",
    r"mixer_norm": "layernorm_before",
    r"mlp_norm": "layernorm_after",
    r"mixer\.query": "attention.q_proj",
    r"mixer\.key": "attention.k_proj",
    r"mixer\.value": "attention.v_proj",
    r"mixer\.output": "attention.o_proj",
    r"mlp\.expand": "mlp.fc1",
    r"mlp\.contract": "mlp.fc2",
    r"trunk\.norm": "layernorm",
}


def ours(architecture: str, grid: tuple[int, int], **changes: Any) -> Architecture:
    """Build our model in float64 and evaluation mode, with all its parameters moved."""
    fields: dict[str, Any] = {
        "mixer": "attention",
        "position": "learned",
        "knobs": {"heads": HEADS, "bias": True},
        "settings": {"patch": PATCH, "norm_eps": 1e-6},
        **changes,
    }
    torch.manual_seed(0)
    model = build_model(
        ModelSpec(
            architecture=architecture,
            dim=DIM,
            depth=DEPTH,
            length=grid[0] * grid[1],
            input_kind="image",
            input_size=3,
            grid=grid,
            output_size=CLASSES,
            **fields,
        )
    )
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model.double().eval()


def renamed(model: Architecture, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return the model's weights under other names, with patches as the kernel of a convolution."""
    found, patch = {}, model.config.patch
    for name, tensor in model.state_dict().items():
        if name == "embedding.map.weight":
            tensor = tensor.unflatten(1, (patch, patch, 3)).permute(0, 3, 1, 2)
        for old, new in names.items():
            name = re.sub(old, new, name)
        is_token = name.endswith(("_token", "pos_embed", "position_embeddings"))
        found[name] = tensor.reshape(1, -1, model.spec.dim) if is_token else tensor
    return found


def joined(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Join queries, keys and values into one map, as in timm."""
    for name in [name for name in weights if ".query." in name]:
        parts = [weights.pop(name.replace("query", part)) for part in ("query", "key", "value")]
        weights[name.replace("mixer.query", "attn.qkv")] = torch.cat(parts)
    return weights


def assert_alike(model: Architecture, theirs: nn.Module, grid: tuple[int, int]) -> None:
    """Compare logits and the gradient with respect to the images, in float64 and in float32."""
    for dtype, within in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        drawn = torch.Generator().manual_seed(1)
        images = torch.randn(3, *grid, 3, generator=drawn, dtype=torch.float64).to(dtype)
        images.requires_grad_()
        found = model.to(dtype)(images)
        answer = theirs.to(dtype)(images.permute(0, 3, 1, 2))
        expected = getattr(answer, "logits", answer)
        assert found.std() > 0.3
        torch.testing.assert_close(found, expected, rtol=0, atol=within)
        gradients = [torch.autograd.grad(each.sin().sum(), images)[0] for each in (found, expected)]
        assert gradients[0].std() > 0.01
        torch.testing.assert_close(*gradients, rtol=0, atol=10 * within)


@pytest.mark.parametrize("architecture", ["vit", "deit"])
def test_it_is_that_of_timm(architecture: str) -> None:
    package, grid = timm().models, (8, 12)
    kind = {
        "vit": package.vision_transformer.VisionTransformer,
        "deit": package.deit.VisionTransformerDistilled,
    }[architecture]
    model = ours(architecture, grid)
    theirs = kind(img_size=grid, depth=DEPTH, num_heads=HEADS, **SHAPE).eval()
    theirs.load_state_dict(joined(renamed(model, OF_TIMM)))
    assert_alike(model, theirs, grid)


def test_in_training_deit_answers_twice_as_timms() -> None:
    grid = (8, 12)
    model = ours("deit", grid).train()
    theirs = (
        timm()
        .models.deit.VisionTransformerDistilled(
            img_size=grid, depth=DEPTH, num_heads=HEADS, **SHAPE
        )
        .double()
    )
    theirs.load_state_dict(joined(renamed(model, OF_TIMM)))
    theirs.set_distilled_training()
    images = torch.randn(3, *grid, 3, generator=torch.Generator().manual_seed(1)).double()
    logits, auxiliary = model(images)
    own, taught = theirs.train()(images.permute(0, 3, 1, 2))
    torch.testing.assert_close(logits, own, rtol=0, atol=1e-9)
    torch.testing.assert_close(auxiliary["distillation"], taught, rtol=0, atol=1e-9)


@pytest.mark.parametrize("architecture", ["vit", "deit"])
def test_it_is_that_of_transformers(architecture: str) -> None:
    import transformers

    name, kind = {
        "vit": ("ViT", "ViTForImageClassification"),
        "deit": ("DeiT", "DeiTForImageClassificationWithTeacher"),
    }[architecture]
    grid = (8, 8)
    model = ours(architecture, grid)
    config = getattr(transformers, f"{name}Config")(
        hidden_size=DIM,
        num_hidden_layers=DEPTH,
        num_attention_heads=HEADS,
        num_labels=CLASSES,
        intermediate_size=4 * DIM,
        image_size=8,
        patch_size=PATCH,
        layer_norm_eps=1e-6,
    )
    theirs = getattr(transformers, kind)(config).eval()
    weights = renamed(model, OF_TRANSFORMERS)
    heads = {
        "head": "classifier" if architecture == "vit" else "cls_classifier",
        "distillation_head": "distillation_classifier",
    }
    of_part = {}
    for key, tensor in weights.items():
        part, _, rest = key.partition(".")
        of_part[f"{heads[part]}.{rest}" if part in heads else f"{architecture}.{key}"] = tensor
    theirs.load_state_dict(of_part)
    assert_alike(model, theirs, grid)


def test_mlp_mixer_is_that_of_timm() -> None:
    grid = (8, 12)
    model = ours(
        "vit",
        grid,
        mixer="mlp_mixer",
        position="none",
        knobs={"hidden": DIM // 2},
        settings={"patch": PATCH, "norm_eps": 1e-6, "pooling": "mean"},
    )
    theirs = timm().models.mlp_mixer.MlpMixer(img_size=grid, num_blocks=DEPTH, **SHAPE).eval()
    theirs.load_state_dict(renamed(model, OF_TIMM | OF_MIXER))
    assert_alike(model, theirs, grid)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("vit_tiny", "vit_tiny_patch16_224"),
        ("deit_tiny", "deit_tiny_distilled_patch16_224"),
        ("mixer_small_32", "mixer_s32_224"),
    ],
)
def test_a_preset_is_the_model_that_timm_calls_so(name: str, theirs: str) -> None:
    """Compare outputs too, since heads or the norms' eps do not change the number of parameters."""
    torch.manual_seed(0)
    model = build_model(full_size(name)).eval()
    for parameter in model.parameters():
        parameter.data += 0.02 * torch.randn_like(parameter)
    names = OF_TIMM | (OF_MIXER if name.startswith("mixer") else {})
    other = timm().create_model(theirs).eval()
    other.load_state_dict(joined(renamed(model, names)))
    image = torch.randn(1, 224, 224, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found, expected = model(image), other(image.permute(0, 3, 1, 2))
    assert found.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)

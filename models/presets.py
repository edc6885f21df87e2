"""Sizes of published models, as data: ``Model(preset="vit_tiny")`` sets the fields defined here.

This module imports no torch, like `bakeoff.models.model_spec`. A field given besides the preset
overrides
it: ``Model(preset="vit_tiny", patch=4)`` reads images of 28 pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bakeoff.models.errors import ModelError, did_you_mean
from bakeoff.models.model_spec import Knob


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A named size of an architecture.

    Attributes:
        architecture: A key of `bakeoff.models.ARCHITECTURES`.
        fields: Mixer and position if the architecture takes them, ``dim``, ``depth`` and knobs.
        side: Side of the square images that it is published for, in pixels.
        system: Its name in published tables; empty if no table has it.
        vocabulary: Vocabulary size of the texts that it is published for; 0 if it reads images.
        length: The maximum number of tokens that it reads.
    """

    architecture: str
    fields: Mapping[str, Knob]
    side: int = 224
    system: str = ""
    vocabulary: int = 0
    length: int = 0


def preset(name: str) -> Preset:
    """Return the preset with that name.

    Raises:
        ModelError: There is no such preset; the message suggests similar names.
    """
    if name not in PRESETS:
        raise ModelError(
            f"unknown preset {name!r}{did_you_mean(name, PRESETS)} (known: {', '.join(PRESETS)})"
        )
    return PRESETS[name]


def _vit(system: str, dim: int, depth: int, heads: int, patch: int) -> Preset:
    """Return a size of Dosovitskiy et al. 2020, Table 1, or of Touvron et al. 2021, Table 1."""
    fields: dict[str, Knob] = {
        "mixer": "attention",
        "position": "learned",
        "dim": dim,
        "depth": depth,
        "heads": heads,
        "bias": True,
        "patch": patch,
        "norm_eps": 1e-6,
    }
    return Preset(architecture="vit", system=system, fields=fields)


def _deit(system: str, dim: int, depth: int, heads: int) -> Preset:
    """Return a size of Touvron et al. 2021, Table 1, with distillation; drawn as in section 6."""
    vit = _vit(system, dim, depth, heads, 16)
    fields = {**vit.fields, "initialisation": "truncated_normal"}
    return Preset(architecture="deit", system=system, fields=fields)


def _levit(system: str, dims: str, depths: str, heads: str, key_dim: int, **others: Knob) -> Preset:
    """Return a size of Graham et al. 2021, section 4.3, with both heads and the code's defaults."""
    fields: dict[str, Knob] = {
        "dims": dims,
        "depths": depths,
        "heads": heads,
        "key_dim": key_dim,
        "halvings": 4,
        **others,
    }
    return Preset(architecture="levit", system=system, fields=fields)


def _mlp_mixer(system: str, dim: int, depth: int, patch: int) -> Preset:
    """Return a size of Tolstikhin et al. 2021, Table 1.

    Hidden widths are dim / 2 over tokens and 4 dim over channels.
    """
    fields: dict[str, Knob] = {
        "mixer": "mlp_mixer",
        "position": "none",
        "dim": dim,
        "depth": depth,
        "hidden": dim // 2,
        "patch": patch,
        "pooling": "mean",
        "norm_eps": 1e-6,
    }
    return Preset(architecture="vit", system=system, fields=fields)


def _resnet(system: str, blocks: str, block: str, **knobs: Knob) -> Preset:
    """Return a size of He et al. 2016, Table 1, or of Hu et al. 2018 or Woo et al. 2018."""
    fields: dict[str, Knob] = {
        "dim": 64,
        "blocks": blocks,
        "block": block,
        "stem": "7x7",
        **knobs,
    }
    return Preset(architecture="resnet", system=system, fields=fields)


def _swin(system: str, dim: int, depths: str, heads: str) -> Preset:
    """Return a size of Liu et al. 2021, section 3.3; the initialisation is that of their code."""
    fields: dict[str, Knob] = {
        "dim": dim,
        "depths": depths,
        "heads": heads,
        "window": 7,
        "patch": 4,
        "initialisation": "truncated_normal",
    }
    return Preset(architecture="swin", system=system, fields=fields)


def _swin_v2(system: str, dim: int, depths: str, heads: str) -> Preset:
    """Return a size of Liu et al. 2022, section 3.5: windows of 8, images of 256 pixels."""
    fields = {**_swin(system, dim, depths, heads).fields, "window": 8}
    return Preset(architecture="swin_v2", system=system, side=256, fields=fields)


def _cait(
    system: str, dim: int, depth: int, heads: int, *, scale: float = 1e-5, side: int = 224
) -> Preset:
    """Return a size of Touvron et al. 2021, CaiT; initial LayerScale as in the authors' code."""
    fields: dict[str, Knob] = {
        "mixer": "talking_heads",
        "position": "learned",
        "dim": dim,
        "depth": depth,
        "heads": heads,
        "bias": True,
        "patch": 16,
        "class_heads": heads,
        "layer_scale": scale,
        "initialisation": "truncated_normal",
    }
    return Preset(architecture="cait", system=system, fields=fields, side=side)


def _volo(
    system: str,
    depths: tuple[int, int],
    dims: tuple[int, int],
    heads: tuple[int, int],
    *,
    stem: int = 64,
    ratio: float = 3.0,
) -> Preset:
    """Return a size of Yuan et al. 2021, VOLO; pairs are for outlookers, then for attention."""
    fields: dict[str, Knob] = {
        "mixer": "attention",
        "position": "learned",
        "dim": dims[1],
        "depth": depths[1],
        "heads": heads[1],
        "bias": "output",
        "class_heads": heads[1],
        "patch": 8,
        "stem_width": stem,
        "outlook_dim": dims[0],
        "outlook_depth": depths[0],
        "outlook_heads": heads[0],
        "feed_forward_ratio": ratio,
        "has_token_head": True,
        "initialisation": "truncated_normal",
    }
    return Preset(architecture="volo", system=system, fields=fields)


def _gpt2(dim: int, depth: int, heads: int, system: str = "") -> Preset:
    """Return a size of GPT-2.

    Source: Radford et al. 2019, "Language models are unsupervised multitask learners", Table 2.
    """
    fields: dict[str, Knob] = {
        "mixer": "attention",
        "position": "learned",
        "dim": dim,
        "depth": depth,
        "heads": heads,
        "bias": True,
        "feed_forward": "gelu_tanh",
        "has_scaled_embedding": False,
        "initialisation": "gpt2",
        "position_std": 0.02,
    }
    return Preset(
        architecture="language_model", system=system, fields=fields, vocabulary=50_257, length=1_024
    )


def _bert(dim: int, depth: int, heads: int, architecture: str = "bert_classifier") -> Preset:
    """Return a size of Devlin et al. 2019, section 3, as a classifier or as it is pretrained."""
    fields: dict[str, Knob] = {
        "mixer": "attention",
        "position": "learned",
        "dim": dim,
        "depth": depth,
        "heads": heads,
        "bias": True,
    }
    return Preset(architecture=architecture, fields=fields, vocabulary=30_522, length=512)


def _llama(
    dim: int, depth: int, heads: int, key_value_heads: int, hidden: int, *, vocabulary: int
) -> Preset:
    """Return a Llama (Touvron et al. 2023, arXiv:2302.13971) with grouped queries."""
    fields: dict[str, Knob] = {
        "mixer": "grouped_query",
        "position": "rope",
        "dim": dim,
        "depth": depth,
        "heads": heads,
        "key_value_heads": key_value_heads,
        "norm_kind": "rms",
        "feed_forward": "swiglu",
        "feed_forward_ratio": hidden / dim,
        "has_feed_forward_bias": False,
        "has_scaled_embedding": False,
        "initialisation": "truncated_normal",
    }
    return Preset(architecture="language_model", fields=fields, vocabulary=vocabulary, length=2_048)


PRESETS: Mapping[str, Preset] = {
    # GPT-2
    "gpt2": _gpt2(768, 12, 12, "GPT-2 small"),
    "gpt2_medium": _gpt2(1024, 24, 16),
    "gpt2_large": _gpt2(1280, 36, 20),
    "gpt2_xl": _gpt2(1600, 48, 25),
    # BERT
    "bert_base": _bert(768, 12, 12),
    "bert_large": _bert(1024, 24, 16),
    "bert_base_pretraining": _bert(768, 12, 12, "bert"),
    "bert_large_pretraining": _bert(1024, 24, 16, "bert"),
    # a decoder of 2024: Allal et al. 2024, SmolLM, with rotary angles of base 10,000. SmolLM2
    # (arXiv:2502.02737) has the same sizes, but reads 8,192 tokens with a base of 100,000
    "smollm_135m": _llama(576, 30, 9, 3, 1536, vocabulary=49_152),
    "smollm_360m": _llama(960, 32, 15, 5, 2560, vocabulary=49_152),
    # vision transformer
    "vit_tiny": _vit("ViT-Ti/16", 192, 12, 3, 16),
    "vit_small": _vit("ViT-S/16", 384, 12, 6, 16),
    "vit_base": _vit("ViT-B/16", 768, 12, 12, 16),
    "vit_base_32": _vit("ViT-B/32", 768, 12, 12, 32),
    "vit_large": _vit("ViT-L/16", 1024, 24, 16, 16),
    # Swin transformer
    "swin_tiny": _swin("Swin-T", 96, "2-2-6-2", "3-6-12-24"),
    "swin_small": _swin("Swin-S", 96, "2-2-18-2", "3-6-12-24"),
    "swin_base": _swin("Swin-B", 128, "2-2-18-2", "4-8-16-32"),
    "swin_v2_tiny": _swin_v2("SwinV2-T", 96, "2-2-6-2", "3-6-12-24"),
    "swin_v2_small": _swin_v2("SwinV2-S", 96, "2-2-18-2", "3-6-12-24"),
    "swin_v2_base": _swin_v2("SwinV2-B", 128, "2-2-18-2", "4-8-16-32"),
    # CaiT
    "cait_xxs24": _cait("CaiT-XXS24", 192, 24, 4),
    "cait_xxs36": _cait("CaiT-XXS36", 192, 36, 4),
    "cait_xs24": _cait("CaiT-XS24-384", 288, 24, 6, side=384),
    "cait_s24": _cait("CaiT-S24", 384, 24, 8),
    "cait_s36": _cait("CaiT-S36-384", 384, 36, 8, scale=1e-6, side=384),
    # VOLO
    "volo_d1": _volo("VOLO-D1", (4, 14), (192, 384), (6, 12)),
    "volo_d2": _volo("VOLO-D2", (6, 18), (256, 512), (8, 16)),
    "volo_d5": _volo("VOLO-D5", (12, 36), (384, 768), (12, 16), stem=128, ratio=4.0),
    # DeiT with both heads
    "deit_tiny": _deit("DeiT-Ti distilled", 192, 12, 3),
    "deit_small": _deit("DeiT-S distilled", 384, 12, 6),
    "deit_base": _deit("DeiT-B distilled", 768, 12, 12),
    # LeViT
    "levit_128s": _levit("LeViT-128S", "128-256-384", "2-3-4", "4-6-8", 16),
    "levit_128": _levit("LeViT-128", "128-256-384", "4-4-4", "4-8-12", 16),
    "levit_192": _levit("LeViT-192", "192-288-384", "4-4-4", "3-5-6", 32),
    "levit_256": _levit("LeViT-256", "256-384-512", "4-4-4", "4-6-8", 32),
    "levit_384": _levit("LeViT-384", "384-512-768", "4-4-4", "6-9-12", 32, stochastic_depth=0.1),
    # MLP-Mixer
    "mixer_small": _mlp_mixer("Mixer-S/16", 512, 8, 16),
    "mixer_small_32": _mlp_mixer("Mixer-S/32", 512, 8, 32),
    "mixer_base": _mlp_mixer("Mixer-B/16", 768, 12, 16),
    "mixer_base_32": _mlp_mixer("Mixer-B/32", 768, 12, 32),
    "mixer_large": _mlp_mixer("Mixer-L/16", 1024, 24, 16),
    # residual network
    "resnet18": _resnet("ResNet-18", "2-2-2-2", "basic"),
    "resnet50": _resnet("ResNet-50", "3-4-6-3", "bottleneck"),
    "resnet101": _resnet("ResNet-101", "3-4-23-3", "bottleneck"),
    "se_resnet50": _resnet(
        "SE-ResNet-50", "3-4-6-3", "bottleneck", channel_attention="se", has_excitation_bias=True
    ),
    "resnet18_cbam": _resnet("ResNet-18 + CBAM", "2-2-2-2", "basic", channel_attention="cbam"),
    "resnet50_cbam": _resnet("ResNet-50 + CBAM", "3-4-6-3", "bottleneck", channel_attention="cbam"),
    "botnet50": _resnet("", "3-4-6-3", "bottleneck", attention="botnet"),
}

"""Check that each preset has exactly as many parameters as its published form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bakeoff.models import Input, ModelError, build_shapes
from bakeoff.models.presets import PRESETS, preset
from bakeoff.reports.literature.csv import rows_of
from tests.models.full_size import full_size

COUNTS = {
    row["system"]: int(row["value"]) for row in rows_of("parameters.csv") if row["unit"] == "1"
}
VISION = ("ViT-", "DeiT-", "CaiT-", "Swin", "LeViT-", "VOLO-", "Mixer-", "ResNet-", "SE-ResNet-")


def of_tables() -> list[Any]:
    """Return the presets of published tables; the battery has all but one of each architecture."""
    named = [name for name, each in PRESETS.items() if each.system]
    first = {PRESETS[name].architecture: name for name in reversed(named)}.values()
    return [pytest.param(name, marks=[pytest.mark.battery] * (name not in first)) for name in named]


@pytest.mark.parametrize("name", of_tables())
def test_a_preset_has_the_published_parameters(name: str) -> None:
    assert build_shapes(full_size(name)).num_parameters() == COUNTS[PRESETS[name].system]


# These were counted by transformers 5.13 from the published configurations; see tests/parity.
BY_TRANSFORMERS = {
    "gpt2_medium": 354_823_168,
    "gpt2_large": 774_030_080,
    "gpt2_xl": 1_557_611_200,
    "smollm_135m": 134_515_008,
    "smollm_360m": 361_821_120,
}


@pytest.mark.parametrize("name", BY_TRANSFORMERS)
def test_a_preset_that_no_table_has_is_as_large_as_transformers_says(name: str) -> None:
    assert build_shapes(full_size(name)).num_parameters() == BY_TRANSFORMERS[name]


@pytest.mark.parametrize(
    ("name", "wanted"), [("bert_base", 109_482_240), ("bert_large", 335_141_888)]
)
def test_bert_has_the_published_parameters_without_its_head(name: str, wanted: int) -> None:
    whole = full_size(name)
    head = (whole.dim + 1) * whole.output_size
    assert build_shapes(whole).num_parameters() == wanted + head


@pytest.mark.parametrize(
    ("name", "masked_alone", "with_pairs"),
    [
        ("bert_base_pretraining", 109_514_298, 110_106_428),
        ("bert_large_pretraining", 335_174_458, 336_226_108),
    ],
)
def test_bert_in_training_has_the_published_parameters(
    name: str, masked_alone: int, with_pairs: int
) -> None:
    """Check the second head, which exists if a task gives two texts, as in `definitions_pairs`.

    Its answers are two of the symbols, which the paper's vocabulary lacks.
    """
    whole = full_size(name)
    pairs = replace(whole, others={"segments": Input(kind="tokens", size=2, length=512)})
    assert build_shapes(whole).num_parameters() == masked_alone
    assert build_shapes(pairs).num_parameters() == with_pairs


def test_every_published_vision_model_has_a_preset() -> None:
    built = {each.system for each in PRESETS.values()}
    assert {system for system in COUNTS if system.startswith(VISION)} - built == set()


def test_an_unknown_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(ModelError, match="unknown preset 'vit_tini'; did you mean 'vit_tiny'"):
        preset("vit_tini")

"""Check two towers: the inputs of each, the token that represents a text, and the scale's bound."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models import Architecture, Input, ModelError, ModelSpec, build_model
from bakeoff.models.interface import IMAGE_VECTOR, SCALE, TEXT_VECTOR

DIM, WORDS, TIME, BATCH, CANDIDATES = 16, 9, 6, 4, 3
IMAGE = Input(kind="image", size=3, length=16 * 24, grid=(16, 24))
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randn(BATCH, 16, 24, 3, generator=GENERATOR).double()
READ = torch.randint(WORDS, (BATCH, CANDIDATES, TIME), generator=GENERATOR)
MASK = torch.arange(TIME) < torch.randint(2, TIME + 1, (BATCH, CANDIDATES, 1), generator=GENERATOR)


def built(**settings: Any) -> Architecture:
    torch.manual_seed(0)
    spec = ModelSpec(
        architecture="contrastive",
        mixer="attention",
        position="learned",
        dim=DIM,
        depth=2,
        length=TIME,
        input_kind="tokens",
        input_size=WORDS,
        others={"context": IMAGE},
        output_size=CANDIDATES,
        settings=settings,
    )
    return build_model(spec).double().eval()


@pytest.mark.parametrize("settings", [{}, {"encoder": "cnn"}, {"embedding_dim": 5}])
def test_logits_are_scaled_cosines_of_an_image_and_each_of_its_texts(
    settings: dict[str, Any],
) -> None:
    model = built(**settings)
    with torch.no_grad():
        logits, vectors = model(READ, MASK, IMAGES)
    images, texts = vectors[IMAGE_VECTOR], vectors[TEXT_VECTOR]
    assert images.shape == (BATCH, settings.get("embedding_dim", DIM))
    assert vectors[SCALE].tolist() == pytest.approx([1 / 0.07] * BATCH)
    for row in range(BATCH):
        assert images[row].norm().item() == pytest.approx(1)
        for place in range(CANDIDATES):
            assert texts[row, place].norm().item() == pytest.approx(1)
            cosine = torch.dot(images[row], texts[row, place]).item()
            assert logits[row, place].item() == pytest.approx(cosine / 0.07)


def test_towers_know_nothing_of_each_other() -> None:
    model = built()
    with torch.no_grad():
        first, other = model(READ, MASK, IMAGES), model(READ.flip(0), MASK.flip(0), IMAGES.flip(1))
    assert torch.equal(first.auxiliary[TEXT_VECTOR].flip(0), other.auxiliary[TEXT_VECTOR])
    assert not torch.allclose(first.auxiliary[IMAGE_VECTOR], other.auxiliary[IMAGE_VECTOR])


def test_a_text_is_read_at_its_last_symbol_whatever_number_that_has() -> None:
    """Check that the last symbol represents the text, though the largest one stands elsewhere."""
    model, texts = built(), torch.tensor([[[2, WORDS - 1, 3, 1, 0, 0]]])
    mask = torch.tensor([[[True] * 4 + [False] * 2]])
    with torch.no_grad():
        found = model(texts, mask, IMAGES[:1]).auxiliary[TEXT_VECTOR]
        short = model(texts[..., :4], None, IMAGES[:1]).auxiliary[TEXT_VECTOR]
        padded = model(texts + ~mask * 5, mask, IMAGES[:1]).auxiliary[TEXT_VECTOR]
        other_end = model(texts + torch.tensor([0, 0, 0, 1, 0, 0]), mask, IMAGES[:1])
    torch.testing.assert_close(found, short)
    torch.testing.assert_close(found, padded)
    assert not torch.allclose(found, other_end.auxiliary[TEXT_VECTOR])


def test_the_parameter_of_the_scale_is_cut_and_keeps_its_gradient() -> None:
    """Check the clamped parameter: a minimum in the formula would leave it without gradient."""
    model = built().train()
    with torch.no_grad():
        model.get_parameter("log_scale").fill_(9.0)
    outputs = model(READ, MASK, IMAGES)
    assert outputs.auxiliary[SCALE].max().item() == pytest.approx(100)
    assert model.get_parameter("log_scale").item() == pytest.approx(math.log(100))
    outputs.logits.square().sum().backward()
    gradient = model.get_parameter("log_scale").grad
    assert gradient is not None
    assert gradient.item() > 0


def test_a_fixed_temperature_is_no_parameter() -> None:
    learned, fixed = built(), built(has_learned_temperature=False, similarity_temperature=0.5)
    assert learned.num_parameters() == fixed.num_parameters() + 1
    scale = fixed(READ, MASK, IMAGES).auxiliary[SCALE]
    assert scale.tolist() == pytest.approx([2.0] * BATCH, rel=1e-6)  # drawn in float32


def test_flops_are_those_of_one_text_for_each_image() -> None:
    model, counter = built(embedding_dim=5), FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter, torch.no_grad():
        model(READ[:, :1], None, IMAGES)
    assert model.flops(TIME, BATCH) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"similarity_temperature": 0.001}, "similarity_temperature=0.001 is not in 0.01..100"),
        ({"embedding_dim": 0}, "embedding_dim=0 is not at least 1"),
        ({"encoder": "cnn", "patch": 4}, "patch=4 is of encoder='vit'"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        built(**settings)

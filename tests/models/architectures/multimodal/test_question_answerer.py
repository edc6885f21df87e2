"""Check words that attend to an image: what each fusion reads, and what it ignores."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bakeoff.models import Architecture, Input, ModelError, ModelSpec, build_model

DIM, WORDS, TIME, BATCH, ANSWERS = 16, 9, 6, 3, 4
IMAGE = Input(kind="image", size=3, length=16 * 24, grid=(16, 24))
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randn(BATCH, 16, 24, 3, generator=GENERATOR).double()
READ = torch.randint(WORDS, (BATCH, TIME), generator=GENERATOR)
MASK = torch.arange(TIME) < torch.tensor([[6], [3], [4]])
FUSIONS = ["cross", "concatenation", "question"]


def built(architecture: str = "question_answerer", **settings: Any) -> Architecture:
    torch.manual_seed(0)
    spec = ModelSpec(
        architecture=architecture,
        mixer="attention",
        position="learned",
        dim=DIM,
        depth=2,
        length=TIME,
        input_kind="tokens",
        input_size=WORDS,
        others={"context": IMAGE},
        output_size=WORDS if architecture == "captioner" else ANSWERS,
        settings=settings,
    )
    return build_model(spec).double().eval()


@pytest.mark.parametrize("encoder", ["vit", "cnn"])
@pytest.mark.parametrize("fusion", FUSIONS)
def test_all_but_the_question_alone_read_the_image(fusion: str, encoder: str) -> None:
    model = built(fusion=fusion, encoder=encoder)
    with torch.no_grad():
        found = model(READ, MASK, IMAGES)
        other = model(READ, MASK, IMAGES.flip(1))
        words = model((READ + 1) % WORDS, MASK, IMAGES)
    assert found.shape == (BATCH, ANSWERS)
    assert torch.equal(found, other) is (fusion == "question")
    assert not torch.allclose(found, words)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_padding_is_not_read_however_much_there_is(fusion: str) -> None:
    model = built(fusion=fusion)
    with torch.no_grad():
        found = model(READ, MASK, IMAGES)
        other = model(torch.where(MASK, READ, (READ + 1) % WORDS), MASK, IMAGES)
        shorter = model(READ[1:2, :3], None, IMAGES[1:2])
    torch.testing.assert_close(other, found)
    torch.testing.assert_close(shorter, found[1:2])


def test_places_know_where_they_lie() -> None:
    """Check that two patches that change places change the answer."""
    model, moved = built(patch=8), IMAGES.clone()
    moved[:, :8, :8], moved[:, :8, 8:16] = IMAGES[:, :8, 8:16], IMAGES[:, :8, :8]
    with torch.no_grad():
        assert not torch.allclose(model(READ, MASK, moved), model(READ, MASK, IMAGES))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"patch": 5}, "patch=5 does not divide"),
        ({"encoder": "cnn", "patch": 4}, "patch=4 is of encoder='vit'"),
        ({"blocks": "2-2"}, "blocks='2-2' is of encoder='cnn'"),
        ({"encoder_depth": -1}, "not at least 0"),
    ],
)
@pytest.mark.parametrize("architecture", ["question_answerer", "captioner"])
def test_what_cannot_be_is_refused(architecture: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        built(architecture, **settings)


def test_a_captioner_has_no_vocabulary_to_share_with_an_image() -> None:
    with pytest.raises(ModelError, match="tied='all' needs a source of words"):
        built("captioner", tied="all")

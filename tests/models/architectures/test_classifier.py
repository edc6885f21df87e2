"""Check that a sequence becomes one vector: the mean over real tokens, or a class token."""

import pytest
import torch

from bakeoff.models import MIXERS, ModelError, mixer_class
from tests.models.small_models import BATCH, DIM, LENGTH, SYMBOLS, build, inputs, spec


def test_a_classifier_averages_over_real_tokens() -> None:
    model_spec = spec("classifier", position="none", input_kind="vectors")
    model, x = build(model_spec).double(), inputs(model_spec).double()
    hidden = model.trunk(model.embedding(x))
    torch.testing.assert_close(model(x), model.head(hidden.mean(dim=1)))
    first = torch.zeros(3, LENGTH, dtype=torch.bool)
    first[:, 0] = True
    torch.testing.assert_close(model(x, first), model(x[:, :1]))
    nothing = model(x, torch.zeros(3, LENGTH, dtype=torch.bool))
    torch.testing.assert_close(nothing, model.head.bias.expand(3, SYMBOLS))


def test_a_class_token_stands_first_and_is_read_off_last() -> None:
    model_spec = spec("classifier", pooling="class_token")
    model, x = build(model_spec), inputs(model_spec)
    tokens = torch.cat([model.class_token.vector.expand(BATCH, 1, DIM), model.embedding(x)], dim=1)
    hidden = model.trunk(tokens)
    assert hidden.shape == (BATCH, LENGTH + 1, DIM)
    torch.testing.assert_close(model(x), model.head(hidden[:, 0]))
    assert model.trunk.position.table.shape == (LENGTH + 1, DIM)
    assert {block.mixer.max_length for block in model.trunk.blocks} == {LENGTH + 1}
    plain = build(spec("classifier"))
    assert model.num_parameters() - plain.num_parameters() == 2 * DIM  # the token and its position


def test_a_class_token_is_real_where_all_else_is_padding() -> None:
    model_spec = spec("classifier", pooling="class_token")
    model, x = build(model_spec).double(), inputs(model_spec)
    mask = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    mask[0, :4] = True
    logits = model(x, mask)
    torch.testing.assert_close(logits[:1], model(x[:1, :4]))
    torch.testing.assert_close(logits[1], logits[2])
    assert not torch.allclose(logits[0], logits[1])


@pytest.mark.parametrize("architecture", ["classifier", "pair_classifier"])
@pytest.mark.parametrize("mixer", MIXERS)
def test_every_mixer_has_room_for_a_class_token(mixer: str, architecture: str) -> None:
    model = build(spec(architecture, mixer, pooling="class_token"))
    model(inputs(model.spec)).square().sum().backward()
    assert model.class_token.vector.grad.abs().max() > 0
    if mixer_class(mixer).fixed_length:
        with pytest.raises(ModelError, match=f"at most max_length={LENGTH + 1} tokens"):
            build(spec(architecture, mixer, pooling="class_token", position="none"))(
                inputs(model.spec, length=LENGTH + 1)
            )

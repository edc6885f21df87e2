"""Check causal and masked language models: the tokens they depend on, and their output matrix."""

import pytest
import torch

from bakeoff.models import MIXERS, ModelError, mixer_class
from tests.models.small_models import BATCH, DIM, LENGTH, SYMBOLS, build, inputs, spec

BOTH = ["language_model", "masked_language_model"]
both = pytest.mark.parametrize("architecture", BOTH)


@pytest.mark.parametrize("mixer", [m for m in MIXERS if mixer_class(m).supports_causal])
def test_a_language_model_never_sees_the_token_it_predicts(mixer: str) -> None:
    model_spec = spec("language_model", mixer)
    model, tokens = build(model_spec).eval(), inputs(model_spec)
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % SYMBOLS
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=0, atol=1e-6)
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_a_masked_language_model_sees_both_directions() -> None:
    model_spec = spec("masked_language_model", depth=1)
    model, tokens = build(model_spec), inputs(model_spec)
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % SYMBOLS
    moved = (model(tokens) - model(changed)).abs().amax(dim=-1) > 0
    assert moved.all()


@both
def test_the_output_matrix_is_the_embedding(architecture: str) -> None:
    model = build(spec(architecture, "conv"))
    table = model.embedding.table.weight
    assert sum(p is table for p in model.parameters()) == 1
    assert not [p for p in model.parameters() if p.shape == (SYMBOLS, DIM) and p is not table]
    only_zeros = torch.zeros(1, LENGTH, dtype=torch.long)
    (as_output,) = torch.autograd.grad(model(only_zeros)[..., 3].sum(), table)
    assert as_output[3].abs().max() > 0  # token 3 was not among the inputs
    assert as_output[0].abs().max() > 0


@both
def test_an_output_matrix_of_its_own_starts_like_the_embedding_and_goes_its_way(
    architecture: str,
) -> None:
    tied, untied = (build(spec(architecture, dim=64, is_tied=is_tied)) for is_tied in (True, False))
    assert untied.num_parameters() - tied.num_parameters() == 64 * SYMBOLS
    assert untied.head.bias is None
    assert untied.head.weight.std().item() == pytest.approx(64**-0.5, rel=0.1)
    table, x = untied.embedding.table.weight, torch.zeros(1, LENGTH, dtype=torch.long)
    (as_output,) = torch.autograd.grad(untied(x)[..., 3].sum(), table)
    assert not as_output[3].any()
    hidden = untied.trunk(untied.embedding(x))
    torch.testing.assert_close(untied(x), hidden @ untied.head.weight.T)


@pytest.mark.parametrize("outputs", [SYMBOLS - 1, SYMBOLS + 1])
def test_a_tied_language_model_predicts_what_it_reads(outputs: int) -> None:
    with pytest.raises(ModelError, match=f"output_size={outputs} must equal input_size=11"):
        build(spec("language_model", output_size=outputs))
    free = build(spec("language_model", output_size=outputs, is_tied=False))
    assert free(inputs(free.spec)).shape == (BATCH, LENGTH, outputs)


def test_a_tied_masked_language_model_may_read_tokens_that_it_never_predicts() -> None:
    model = build(spec("masked_language_model", "conv", output_size=SYMBOLS - 2))
    hidden = torch.full((1, LENGTH), SYMBOLS - 1)  # the token that replaces a masked one
    table = model.embedding.table.weight
    expected = model.trunk(model.embedding(hidden)) @ table[: SYMBOLS - 2].T
    torch.testing.assert_close(model(hidden), expected)
    assert model.flops(LENGTH) == build(spec("masked_language_model", "conv")).flops(LENGTH) - (
        LENGTH * 2 * DIM * 2
    )


def test_a_tied_masked_language_model_has_a_row_for_all_that_it_predicts() -> None:
    message = "input_size=11 must be at least output_size=12 .or is_tied=False."
    with pytest.raises(ModelError, match=message):
        build(spec("masked_language_model", output_size=SYMBOLS + 1))
    build(spec("masked_language_model", output_size=SYMBOLS + 1, is_tied=False))

"""Check two towers that share their weights, and the features made from the two vectors."""

import pytest
import torch

from bakeoff.models import build_model
from tests.models.small_models import BATCH, DIM, SYMBOLS, build, inputs, spec

KINDS = ["tokens", "vectors"]
POOLINGS = ["mean", "class_token"]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_a_linear_map_of_both_their_product_and_their_difference(
    kind: str, pooling: str
) -> None:
    model = build(spec("pair_classifier", input_kind=kind, pooling=pooling))
    x = inputs(model.spec)
    u, v = model.encode(x[:, 0]), model.encode(x[:, 1])
    features = torch.cat([u, v, u * v, u - v], dim=-1)
    assert model.head.weight.shape == (SYMBOLS, 4 * DIM)
    torch.testing.assert_close(model(x), features @ model.head.weight.T + model.head.bias)
    assert not torch.allclose(model(x), model(x.flip(1)))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_tower_is_the_classifiers(pooling: str) -> None:
    """Check that one seed gives the tower and the classifier the same values and vectors."""
    pair = build(spec("pair_classifier", pooling=pooling))
    single = build(spec("classifier", pooling=pooling))
    x = inputs(pair.spec)
    assert torch.equal(pair.encode(x[:, 0]), single.encode(x[:, 0]))
    assert pair.num_parameters() - single.num_parameters() == 3 * DIM * SYMBOLS


def test_each_sequence_of_a_pair_has_its_own_padding() -> None:
    model = build(spec("pair_classifier")).double()
    x = inputs(model.spec)
    mask = torch.ones(x.shape, dtype=torch.bool)
    mask[:, 0, 4:] = False
    mask[:, 1, 7:] = False
    u, v = model.encode(x[:, 0, :4]), model.encode(x[:, 1, :7])
    expected = model.head(torch.cat([u, v, u * v, u - v], dim=-1))
    torch.testing.assert_close(model(x, mask), expected)


def test_pairs_of_a_batch_do_not_see_each_other() -> None:
    model = build(spec("pair_classifier", input_kind="vectors")).double()
    x = inputs(model.spec).double().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x)[1].square().sum(), x)
    touched = gradient.flatten(2).abs().amax(dim=-1) > 0
    assert touched.tolist() == [[False, False], [True, True], [False, False]]
    assert len(touched) == BATCH


def test_it_is_built_without_memory() -> None:
    with torch.device("meta"):
        assert build_model(spec("pair_classifier", dim=4096)).head.weight.is_meta


def test_the_arenas_head_has_two_hidden_layers_of_512_and_256() -> None:
    model = build(spec("pair_classifier", head="two_layers")).double()
    x = inputs(model.spec)
    u, v = model.encode(x[:, 0]), model.encode(x[:, 1])
    hidden = torch.cat([u, v, u * v, u - v], dim=-1)
    maps = [part for part in model.head.modules() if isinstance(part, torch.nn.Linear)]
    assert [each.out_features for each in maps] == [512, 256, SYMBOLS]
    for each in maps[:-1]:
        hidden = (hidden @ each.weight.T + each.bias).clamp(min=0)
    torch.testing.assert_close(model(x), hidden @ maps[-1].weight.T + maps[-1].bias)
    weights = 4 * DIM * 512 + 512 * 256 + 256 * SYMBOLS
    linear = build(spec("pair_classifier"))
    assert linear.flops(7) + 2 * (weights - 4 * DIM * SYMBOLS) == model.flops(7)


def test_another_head_leaves_the_tower_as_it_was() -> None:
    linear, wide = (build(spec("pair_classifier", head=head)) for head in ("linear", "two_layers"))
    x = inputs(linear.spec)
    assert torch.equal(linear.encode(x[:, 0]), wide.encode(x[:, 0]))

"""Check that a tagger gives one row of logits per token, which depends on all tokens."""

import torch

from tests.models.small_models import LENGTH, build, inputs, spec


def test_logits_of_a_token_are_a_linear_map_of_what_became_of_it() -> None:
    for kind in ("tokens", "vectors"):
        model = build(spec("tagger", input_kind=kind))
        x = inputs(model.spec)
        hidden = model.trunk(model.embedding(x))
        torch.testing.assert_close(model(x), hidden @ model.head.weight.T + model.head.bias)


def test_a_tagger_sees_both_directions() -> None:
    model = build(spec("tagger", input_kind="vectors", depth=1))
    x = inputs(model.spec).requires_grad_()
    for place in (0, LENGTH - 1):
        (gradient,) = torch.autograd.grad(model(x)[:, place].square().sum(), x)
        assert (gradient.abs().amax(dim=-1) > 0).all()

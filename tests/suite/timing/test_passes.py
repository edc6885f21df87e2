"""Test the operations of a pass."""

from __future__ import annotations

import torch

from bakeoff.models.architectures.mixer_alone import MixerAlone
from bakeoff.suite.timing.passes import built, forward, forward_backward, over_vectors
from tests.suite.timing.subjects import alone

SPEC = alone("attention")


def test_a_model_hangs_on_its_spec_and_seed_alone() -> None:
    torch.manual_seed(99)
    first = built(SPEC, "cpu", 1).state_dict()
    second, other = built(SPEC, "cpu", 1).state_dict(), built(SPEC, "cpu", 2).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_forward_is_without_gradients_and_in_evaluation_mode() -> None:
    model = built(SPEC, "cpu", 0)
    seen: list[tuple[bool, bool]] = []

    def outputs() -> torch.Tensor:
        seen.append((torch.is_grad_enabled(), model.training))
        return model(torch.ones(1, 16, 8))  # type: ignore[no-any-return]

    timed = forward(model, outputs)
    timed.prepare()
    timed.run()
    assert seen == [(False, False)]
    assert torch.is_grad_enabled()


def test_backward_reaches_input_and_parameters_and_starts_from_none() -> None:
    model = built(SPEC, "cpu", 0).eval()
    _, timed = over_vectors(model, SPEC, "cpu", 0)
    timed.prepare()
    assert model.training
    timed.run()
    once = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in once)
    timed.run()  # does not add to the first count
    assert isinstance(model, MixerAlone)
    for before, parameter in zip(once, model.parameters(), strict=True):
        assert before is not None
        assert parameter.grad is not None
        assert torch.equal(before, parameter.grad)


def test_nothing_is_kept_after_a_sample() -> None:
    model = built(SPEC, "cpu", 0)
    x = torch.randn(1, 16, 8, requires_grad=True)
    timed = forward_backward(model, lambda: model(x).sum(), inputs=x, gradient=None)
    timed.run()
    assert x.grad is not None
    timed.clear()
    assert x.grad is None
    assert all(parameter.grad is None for parameter in model.parameters())


def test_both_passes_see_the_same_input_drawn_from_the_seed() -> None:
    model = built(SPEC, "cpu", 0)
    inputs: list[torch.Tensor] = []
    model.register_forward_pre_hook(lambda module, args: inputs.append(args[0].detach().clone()))
    for seed in (0, 0, 1):
        for timed in over_vectors(model, SPEC, "cpu", seed):
            timed.run()
    assert inputs[0].shape == (1, 16, 8)
    assert all(torch.equal(inputs[0], same) for same in inputs[:4])
    assert not torch.equal(inputs[0], inputs[4])

"""Check that padded sequences give the same packed, as on a CPU, and unpacked, as on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import build_mixer
from bakeoff.models.kernels import recurrence

BATCH, TIME, DIM = 4, 6, 3
LENGTHS = torch.tensor([6, 0, 1, 4])


def with_gradients(network: nn.RNNBase, reader: object, x: Tensor) -> list[Tensor]:
    given = x.clone().requires_grad_()
    outputs, states = reader(network, given, LENGTHS)  # type: ignore[operator]
    total = sum((each * torch.arange(each.numel()).view_as(each)).sum() for each in states)
    total = total + outputs.square().sum()
    return [outputs, *states, *torch.autograd.grad(total, [given, *network.parameters()])]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_token_by_token_as_packed(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    network = kind(DIM, 5, 2, batch_first=True).double()
    x = torch.randn(BATCH, TIME, DIM, dtype=torch.float64)

    def one_by_one(network: nn.RNNBase, x: Tensor, lengths: Tensor) -> object:
        return recurrence._read_token_by_token(network, x, lengths.clamp(min=1))

    packed = with_gradients(network, recurrence.read_padded, x)
    torch.testing.assert_close(with_gradients(network, one_by_one, x), packed)


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_a_recurrence_that_is_not_packed_gives_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    mixer = build_mixer(name, dim=4, max_length=TIME, is_causal=True).double()
    x = torch.randn(BATCH, TIME, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(BATCH, TIME) > 0.4
    mask[1] = False
    packed = mixer(x, mask)
    wanted = torch.autograd.grad(packed.square().sum(), [x, *mixer.parameters()])
    monkeypatch.setattr(recurrence, "_is_packed", lambda x: False)
    found = mixer(x, mask)
    torch.testing.assert_close(found, packed)
    grads = torch.autograd.grad(found.square().sum(), [x, *mixer.parameters()])
    torch.testing.assert_close(grads, wanted)

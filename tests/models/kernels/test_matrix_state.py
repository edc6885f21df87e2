"""Check that the chunked form and the single step equal the recurrence for any decay and chunk."""

from itertools import product

import pytest
import torch
from torch import Tensor

from bakeoff.models.kernels.matrix_state import Streams, empty_state, one_step, recurrent
from bakeoff.models.kernels.state_chunks import chunked

SETTINGS = list(product([None, 1, 4], [False, True], [False, True]))
settings = pytest.mark.parametrize(("decay", "has_strength", "has_delta"), SETTINGS)


def streams(decay: int | None, has_strength: bool, length: int = 23, slow: float = 1.0) -> Streams:
    """Draw streams with keys of length 1, since otherwise the delta rule grows without bound."""
    generator = torch.Generator().manual_seed(0)

    def draw(width: int) -> Tensor:
        return torch.randn(2, 3, length, width, generator=generator).double()

    keys = torch.nn.functional.normalize(draw(4), dim=-1)
    return Streams(
        queries=draw(4),
        keys=keys,
        values=draw(5),
        log_decay=None if decay is None else -slow * draw(decay).exp(),
        strength=draw(1).sigmoid() if has_strength else None,
    )


@settings
def test_chunks_of_any_size_are_the_recurrence_and_so_are_gradients(
    decay: int | None, has_strength: bool, has_delta: bool
) -> None:
    read = streams(decay, has_strength)
    inputs = [part.requires_grad_() for part in vars(read).values() if part is not None]
    truth = recurrent(read, has_delta=has_delta)
    slopes = torch.autograd.grad(truth.square().sum(), inputs)
    for size in (1, 4, 23, 64):
        found = chunked(read, has_delta=has_delta, size=size)
        torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)
        of_chunks = torch.autograd.grad(found.square().sum(), inputs)
        torch.testing.assert_close(of_chunks, slopes, rtol=1e-9, atol=1e-9)


@settings
def test_steps_are_the_recurrence(decay: int | None, has_strength: bool, has_delta: bool) -> None:
    read = streams(decay, has_strength)
    state = empty_state(2, 3, 4, like=read.keys, value_width=5)
    outputs = []
    for t in range(23):
        token = read.each(lambda x, t=t: x[:, :, t : t + 1])
        output, state = one_step(token, state, has_delta=has_delta)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=2), recurrent(read, has_delta=has_delta))


@pytest.mark.parametrize("decay", [1, 4])
@pytest.mark.parametrize("slow", [1e-6, 1e3])
def test_decays_neither_overflow_nor_lose_their_digits(decay: int, slow: float) -> None:
    """Check strong decays: exp(-cumulative sum) overflows after a few tokens that forget all."""
    read = streams(decay, has_strength=True, length=200, slow=slow)
    truth = recurrent(read, has_delta=True)
    found = chunked(read.each(lambda x: x.float()), has_delta=True, size=64)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found.double(), truth, rtol=1e-4, atol=1e-5)


def test_the_delta_rule_overwrites_what_stood_under_a_key() -> None:
    """Check that of two values written to one key with strength 1, only the second is read."""
    key = torch.eye(4)[:1].expand(1, 1, 2, 4)
    values = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    read = Streams(queries=key, keys=key, values=values)
    overwritten = chunked(read, has_delta=True, size=2)
    torch.testing.assert_close(overwritten, values)
    torch.testing.assert_close(chunked(read, has_delta=False, size=2), values.cumsum(dim=2))

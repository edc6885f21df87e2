"""Check that the chunked form and the single step equal the recurrence with separate erasure."""

import pytest
import torch
from torch import Tensor

from bakeoff.models.kernels.matrix_state import Streams, empty_state, recurrent
from bakeoff.models.kernels.removal_state import (
    LONGEST,
    STEEPEST,
    RemovalStreams,
    chunked_removal,
    one_removal,
    recurrent_removal,
)


def streams(length: int = 23, *, has_decay: bool = True, steep: float = 1.0) -> RemovalStreams:
    """Draw keys of length 1, rates between 0 and 1, and decays within the bound."""
    generator = torch.Generator().manual_seed(0)

    def draw(width: int) -> Tensor:
        return torch.randn(2, 3, length, width, generator=generator).double()

    found = torch.nn.functional.normalize(draw(4), dim=-1)
    return RemovalStreams(
        queries=draw(4),
        keys=draw(4),
        values=draw(5),
        found=found,
        erased=found * draw(4).sigmoid(),
        log_decay=-STEEPEST * steep * draw(4).sigmoid() ** (1 - steep / 2) if has_decay else None,
    )


@pytest.mark.parametrize("has_decay", [True, False])
def test_chunks_of_any_size_are_the_recurrence_and_so_are_gradients(has_decay: bool) -> None:
    read = streams(has_decay=has_decay)
    inputs = [part.requires_grad_() for part in vars(read).values() if part is not None]
    truth = recurrent_removal(read)
    slopes = torch.autograd.grad(truth.square().sum(), inputs)
    for size in (1, 4, 23, 64):
        found = chunked_removal(read, size=size)
        torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)
        of_chunks = torch.autograd.grad(found.square().sum(), inputs)
        torch.testing.assert_close(of_chunks, slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("has_decay", [True, False])
def test_steps_are_the_recurrence(has_decay: bool) -> None:
    read = streams(has_decay=has_decay)
    state = empty_state(2, 3, 4, like=read.keys, value_width=5)
    outputs = []
    for t in range(23):
        output, state = one_removal(read.each(lambda x, t=t: x[:, :, t : t + 1]), state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=2), recurrent_removal(read))


def test_the_steepest_decay_over_the_longest_chunk_keeps_its_digits() -> None:
    """Check float32, where exp of the sum of a chunk's logarithms is largest."""
    read = streams(200, steep=1.0)
    steep = read.each(lambda x: x)
    object.__setattr__(steep, "log_decay", torch.full_like(read.keys, -STEEPEST))
    for each in (read, steep):
        found = chunked_removal(each.each(lambda x: x.float()), size=LONGEST)
        assert found.dtype is torch.float32
        torch.testing.assert_close(found.double(), recurrent_removal(each), rtol=1e-4, atol=1e-4)


def test_with_one_key_for_both_it_is_the_delta_rule() -> None:
    """Compare with `matrix_state`: S - b k (k' S) + b k v', without a decay."""
    read = streams(has_decay=False)
    strength = torch.rand(2, 3, 23, 1, generator=torch.Generator().manual_seed(1)).double()
    delta = Streams(queries=read.queries, keys=read.found, values=read.values, strength=strength)
    same = RemovalStreams(
        queries=read.queries,
        keys=strength * read.found,
        values=read.values,
        found=read.found,
        erased=strength * read.found,
    )
    torch.testing.assert_close(chunked_removal(same, size=8), recurrent(delta, has_delta=True))


def test_what_is_found_is_read_before_the_decay() -> None:
    """Check the order: found before the decay and removed after it, 2 leaves 2 exp(g) - 2."""
    one = torch.ones(1, 1, 2, 1)
    second = torch.tensor([0.0, 1.0]).reshape(1, 1, 2, 1)
    read = RemovalStreams(
        queries=one,
        keys=1 - second,
        values=2 * one,
        found=second,
        erased=second,
        log_decay=-0.5 * second,
    )
    expected = torch.tensor([2.0, 2 * 0.6065306597 - 2]).reshape(1, 1, 2, 1)
    torch.testing.assert_close(chunked_removal(read, size=2), expected)

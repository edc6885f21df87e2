"""Test the longest dependency chain where it can be counted by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from bakeoff.suite.probes.dependency_chain import longest_chain

X = torch.ones(1, 6, 4, dtype=torch.float64)


def in_turn(x: Tensor) -> Tensor:
    for _ in range(5):
        x = x.sin()
    return x


def side_by_side(x: Tensor) -> Tensor:
    return torch.stack([x.sin().cos(), x.exp()]).sum(dim=0)


def only_views(x: Tensor) -> Tensor:
    return x.transpose(1, 2).unsqueeze(0)[..., 2:].expand(3, -1, -1, -1)


def in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y.add_(1).mul_(2)
    return y


def through_a_view(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 0].view(4).mul_(2)
    return y.sin()


def slices_of_a_buffer(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    for t in range(6):
        y[:, t] = x[:, t].sin()
    return y


def running_sum_in_a_buffer(x: Tensor) -> Tensor:
    y = x.clone()
    for t in range(1, 6):
        y[:, t] += y[:, t - 1]
    return y


def each_slice_for_itself_in_place(x: Tensor) -> Tensor:
    y = x.clone()
    for t in range(6):
        y[:, t] += 1
    return y


def a_buffer_used_again(x: Tensor) -> Tensor:
    y, found = torch.empty(4, dtype=x.dtype), []
    for t in range(6):
        torch.sin(x[0, t], out=y)
        found.append(y + 1)
    return torch.stack(found)


def what_nobody_reads(x: Tensor) -> Tensor:
    in_turn(x)
    return x.sin()


def complex_numbers(x: Tensor) -> Tensor:
    return torch.fft.fft(x, dim=1).real + 1


@pytest.mark.parametrize(
    ("function", "steps"),
    [
        (in_turn, 5),
        (side_by_side, 4),  # two operations, the concatenation, the sum
        (only_views, 0),
        (in_place, 3),
        (through_a_view, 3),
        (slices_of_a_buffer, 2),  # the sine and the copy
        (running_sum_in_a_buffer, 1 + 2 * 5),  # plus an addition and a copy per iteration
        (each_slice_for_itself_in_place, 3),
        (a_buffer_used_again, 3),
        (what_nobody_reads, 1),
    ],
)
def test_counts_what_must_wait(function: Callable[[Tensor], Tensor], steps: int) -> None:
    assert longest_chain(lambda: function(X)) == steps


def test_views_of_complex_numbers_share_their_depth() -> None:
    """Allow one operation or two for a real transform; the sum adds one."""
    assert longest_chain(lambda: complex_numbers(X)) == 1 + longest_chain(
        lambda: torch.fft.fft(X, dim=1)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_takes_torchs_loops_over_tokens_apart(kind: type[nn.RNNBase], dtype: torch.dtype) -> None:
    """Include float32, where oneDNN would fuse the loop into one operation."""
    network = kind(4, 4, batch_first=True).to(dtype)
    was_enabled = torch.backends.mkldnn.enabled
    chains = [
        longest_chain(lambda n=n: network(torch.ones(1, n, 4, dtype=dtype))[0])  # type: ignore[misc]
        for n in (3, 4, 5, 9)
    ]
    step = chains[1] - chains[0]
    assert step >= 2
    assert chains == [chains[0] + step * added for added in (0, 1, 2, 6)]
    assert torch.backends.mkldnn.enabled == was_enabled


def test_leaves_no_gradients_behind() -> None:
    network = nn.Linear(4, 4)
    kept: list[Tensor] = []
    longest_chain(lambda: kept.append(network(torch.ones(2, 4))) or kept[0])  # type: ignore[func-returns-value]
    assert not kept[0].requires_grad

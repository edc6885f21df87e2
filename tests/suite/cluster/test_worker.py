"""Tests for telling the loss of another worker from an error of the trial itself."""

from __future__ import annotations

from typing import Any

import pytest
from torch.distributed import DistBackendError

from bakeoff.suite.cluster.worker import _is_lost_connection

ZERO_3 = "deepspeed.runtime.zero.partition_parameters"
PAIR = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] "
CLOSED = PAIR + "Connection closed by peer [10.0.0.7]:41234"
SHAPES = "mat1 and mat2 shapes cannot be multiplied (8x64 and 32x64)"


def raised_in(module: str, error: Exception) -> Exception:
    """Return the error, with a traceback whose innermost frame is in the given module."""
    names: dict[str, Any] = {"__name__": module, "error": error}
    exec("def wait():\n    raise error", names)
    with pytest.raises(type(error)) as caught:
        names["wait"]()
    return caught.value


@pytest.mark.parametrize(
    ("module", "error"),
    [
        ("torch.distributed.distributed_c10d", RuntimeError(CLOSED)),
        (ZERO_3, RuntimeError(CLOSED)),
        ("deepspeed.utils.nvtx", RuntimeError(PAIR + "Read error: Connection reset by peer")),
        (ZERO_3, RuntimeError(PAIR + "writev [10.0.0.7]:41234: Broken pipe")),
        (ZERO_3, RuntimeError("NCCL error: remote process exited or there was a network error")),
        (ZERO_3, RuntimeError("NCCL communicator was aborted on rank 0.")),
        ("bakeoff.models.mixers.attention", DistBackendError("the other end has hung up")),
    ],
)
def test_a_connection_that_another_worker_took_along_is_lost_connection(
    module: str, error: Exception
) -> None:
    assert _is_lost_connection(raised_in(module, error))


@pytest.mark.parametrize(
    ("module", "error"),
    [
        (ZERO_3, RuntimeError("expected param 3 to be inflight")),
        (ZERO_3, RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")),
        (ZERO_3, RuntimeError("Connection closed by peer")),
        (ZERO_3, RuntimeError("NCCL backend requires tensors to be on GPU")),
        (ZERO_3, ValueError(CLOSED)),
        ("deepspeedy", RuntimeError(CLOSED)),
        ("bakeoff.models.mixers.attention", RuntimeError(SHAPES)),
        ("bakeoff.models.mixers.attention", RuntimeError(CLOSED)),
    ],
)
def test_whatever_else_is_raised_is_the_trial_s_own(module: str, error: Exception) -> None:
    assert not _is_lost_connection(raised_in(module, error))

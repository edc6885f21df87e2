"""Measures mixers that were slow on a GPU: launched, recorded, and the peak memory of a pass.

Attention with chunks of queries is compared with all pairs at once, and with fused attention;
recurrences, which run in float32 under autocast, with torch's own in float16.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bakeoff.models import Mixer, build_mixer
from bakeoff.models.kernels.query_chunks import SIZE, chunks_of
from bakeoff.suite.probes.tensor_bytes import growth_bytes
from bakeoff.suite.training.recipes import float32_products
from tests.benchmarks import torch_peers
from tools.gpu_visit.parts.peers import pass_of
from tools.gpu_visit.results import Finding, Item, Visit
from tools.gpu_visit.stopwatch import milliseconds, seconds_of, seconds_recorded

_DIM, _HEADS, _LENGTH, _BATCH = 512, 8, 2048, 4
_DRY = {"dim": 32, "heads": 2, "length": 64, "batch": 2}
_DRY_CHUNK = 16
# name of an item -> mixer and knobs
_IN_CHUNKS: dict[str, tuple[str, dict[str, Any]]] = {
    "talking_heads": ("talking_heads", {}),
    "hard_attention": ("hard_attention", {}),
    "hard_attention, reinforce": ("hard_attention", {"estimator": "reinforce"}),
    "synthesizer": ("synthesizer", {}),
}
_RECURRENT = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
_BATCHES = (4, 64)  # cuDNN has persistent kernels for multiples of 8, in float16 only
_MOST_BYTES = 4  # times those of fused attention, beside one number for each pair in a chunk
_MOST_LAUNCHED = 1.3  # times the recorded time
_CLOSE = 1e-3  # relative, of outputs and gradients in float32


def items(visit: Visit) -> Iterator[Item]:
    """Yield the mixers that compute chunks, then the recurrences at two batch sizes."""
    for name, (mixer, knobs) in _IN_CHUNKS.items():
        yield name, partial(_in_chunks, visit, mixer, knobs)
    for batch in _BATCHES:
        for name in _RECURRENT:
            yield f"{name}, batch {batch}", partial(_recurrent, visit, name, batch)


def _sizes(visit: Visit) -> dict[str, int]:
    sizes = {"dim": _DIM, "heads": _HEADS, "length": _LENGTH, "batch": _BATCH}
    return _DRY if visit.is_dry else sizes


def _in_chunks(visit: Visit, mixer: str, knobs: dict[str, Any]) -> Finding:
    device, sizes = visit.device, _sizes(visit)
    chunk = _DRY_CHUNK if visit.is_dry else SIZE
    x = _tokens(sizes, device)
    fused = _measured(_built("attention", sizes, device), x, device, math.inf)
    model = _built(mixer, sizes, device, **knobs)
    found = {
        how: _measured(model, x, device, size)
        for how, size in (("chunks", chunk), ("whole", math.inf))
    }
    of_chunk = 4 * sizes["batch"] * sizes["heads"] * chunk * sizes["length"]
    most = _MOST_BYTES * fused["peak_bytes"] + of_chunk
    is_reached = found["chunks"]["peak_bytes"] <= most
    apart = None if model.is_stochastic else _apart(model, x, chunk)
    is_close = apart is None or apart <= _CLOSE
    said = "" if apart is None else f"; {'equal' if is_close else 'differ'} ({apart:.1g})"
    goal = f"goal of {_mib(most)} {'reached' if is_reached else 'missed'}"
    text = f"{_said(found['chunks'])} ({goal}); whole: {_said(found['whole'])}{said}"
    values = {f"{how}_{key}": value for how, each in found.items() for key, value in each.items()}
    values |= {"fused_peak_bytes": fused["peak_bytes"], "most_bytes": most, "apart": apart}
    return Finding(text=text, status="ok" if is_close else "failed", values=values)


def _built(mixer: str, sizes: dict[str, int], device: str, **knobs: Any) -> Mixer:
    torch.manual_seed(0)
    knobs |= {"heads": sizes["heads"], "max_length": sizes["length"]}
    return build_mixer(mixer, dim=sizes["dim"], is_causal=True, **knobs).to(device).train()


def _tokens(sizes: dict[str, int], device: str) -> Tensor:
    return torch.randn(sizes["batch"], sizes["length"], sizes["dim"], device=device)


def _measured(module: nn.Module, x: Tensor, device: str, size: float) -> dict[str, Any]:
    """Return times and peak of a forward and backward pass with chunks of this size."""
    with chunks_of(size):
        work = pass_of(module, x, device)
        launched = seconds_of(work, device)
        peak = growth_bytes(work, device)
        recorded = seconds_recorded(work, device)
    return {"launched_seconds": launched, "recorded_seconds": recorded, "peak_bytes": peak}


def _said(found: dict[str, Any]) -> str:
    launched, recorded = (found[f"{how}_seconds"] for how in ("launched", "recorded"))
    said = f"launched {milliseconds(launched)}, recorded {milliseconds(recorded)}"
    return f"{said}, {_mib(found['peak_bytes'])}"


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"


def _apart(model: Mixer, x: Tensor, chunk: int) -> float:
    """Return the relative distance of outputs, or of all gradients, by chunks and by pairs."""
    found = []
    with float32_products("float32"):
        for size in (math.inf, chunk):
            inputs = x.detach().clone().requires_grad_()
            with chunks_of(size):
                output = model(inputs)
            gradients = torch.autograd.grad(output.square().mean(), [inputs, *model.parameters()])
            found.append((output.detach(), torch.cat([each.flatten() for each in gradients])))
    pairs = zip(*found, strict=True)
    return max(float((one - other).norm() / one.norm()) for one, other in pairs)


def _recurrent(visit: Visit, name: str, batch: int) -> Finding:
    device, sizes = visit.device, {**_sizes(visit), "batch": batch}
    torch.manual_seed(0)
    ours: nn.Module = build_mixer(name, dim=sizes["dim"], is_causal=True)
    theirs = torch_peers.recurrent(_RECURRENT[name])(ours)
    x = _tokens(sizes, device)
    found = {
        whose: _measured(module.to(device).train(), x, device, math.inf)
        for whose, module in (("ours", ours), ("torch", theirs))
    }
    text = f"{_said(found['ours'])}"
    if recorded := found["ours"]["recorded_seconds"]:
        times = found["ours"]["launched_seconds"] / recorded
        goal = "reached" if times <= _MOST_LAUNCHED else "missed"
        text += f" ({times:.2f} times, goal of {_MOST_LAUNCHED} {goal})"
    text += f"; torch's in float16: {_said(found['torch'])}"
    values = {
        f"{whose}_{key}": value for whose, each in found.items() for key, value in each.items()
    }
    return Finding(text=text, values=values)

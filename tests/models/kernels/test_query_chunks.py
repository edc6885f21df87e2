"""Compare chunks of queries with all pairs at once: outputs, gradients, memory, capturability."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Mixer, build_mixer
from bakeoff.models.kernels.query_chunks import chunks_of, is_in_chunks
from bakeoff.models.kernels.softmax_attention import whole_sequence
from bakeoff.suite.probes.tensor_bytes import growth_bytes
from bakeoff.suite.training.engines.capturable import refusing_what_no_graph_holds

BATCH, LENGTH, DIM = 2, 13, 8
DETERMINISTIC: list[tuple[str, dict[str, Any]]] = [
    ("talking_heads", {}),
    ("talking_heads", {"has_map_after": False}),
    ("synthesizer", {}),
    ("synthesizer", {"kind": "random"}),
    ("synthesizer", {"kind": "factorized_dense"}),
    ("synthesizer", {"kind": "factorized_random"}),
    ("attention", {"score": "additive"}),
    ("attention", {"position": "shaw"}),
]
SAMPLED: list[tuple[str, dict[str, Any]]] = [
    ("hard_attention", {}),
    ("hard_attention", {"soft_share": 0.5, "position": "shaw"}),
    ("hard_attention", {"estimator": "reinforce", "soft_share": 0.0}),
    ("hard_attention", {"estimator": "reinforce", "position": "rope"}),
]


def built(name: str, *, is_causal: bool, length: int = LENGTH, **knobs: Any) -> Mixer:
    torch.manual_seed(0)
    mixer = build_mixer(name, dim=DIM, max_length=length, heads=2, is_causal=is_causal, **knobs)
    return mixer.train()


def outputs_and_gradients(mixer: Any, x: Tensor, mask: Tensor | None) -> list[Tensor]:
    x = x.clone().requires_grad_()
    is_sampled = hasattr(mixer, "choices")
    if is_sampled:
        mixer.choices = []
    torch.manual_seed(1)
    output = mixer(x, mask)
    choices = [each for found in mixer.choices for each in found] if is_sampled else []
    if mask is not None:
        output = output.masked_fill(~mask.unsqueeze(-1), 0.0)
    loss = output.square().sum() + sum(each.sum() for each in choices)
    return [output, *choices, *torch.autograd.grad(loss, [x, *mixer.parameters()])]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize(("name", "knobs"), [*DETERMINISTIC, *SAMPLED])
def test_chunks_give_what_all_pairs_give(
    name: str, knobs: dict[str, Any], is_masked: bool, is_causal: bool
) -> None:
    """Sampled keys depend on the seed but not on the chunks, two of which have almost all pairs."""
    mixer = built(name, is_causal=is_causal, **knobs).double()
    x = torch.randn(BATCH, LENGTH, DIM, dtype=torch.float64)
    mask = torch.rand(BATCH, LENGTH) > 0.3 if is_masked else None
    with chunks_of(LENGTH - 1 if (name, knobs) in SAMPLED else math.inf):
        expected = outputs_and_gradients(mixer, x, mask)
    for size in (1, 5):
        with chunks_of(size):
            found = outputs_and_gradients(mixer, x, mask)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
def test_chunks_in_evaluation_give_what_all_pairs_give(is_causal: bool) -> None:
    x = torch.randn(BATCH, LENGTH, DIM)
    for name, knobs in (*DETERMINISTIC, ("hard_attention", {"reading": "argmax"})):
        mixer = built(name, is_causal=is_causal, **knobs).eval()
        with torch.no_grad():
            expected = mixer(x)
            with chunks_of(4):
                torch.testing.assert_close(mixer(x), expected)


def test_a_chunk_sees_what_its_queries_see() -> None:
    x, mask = torch.zeros(BATCH, LENGTH, 1), torch.rand(BATCH, LENGTH) > 0.3
    for is_causal in (False, True):
        whole = whole_sequence(x, mask, None, None, is_causal=is_causal)
        chunk = whole.of_queries(4, 9)
        num_keys = 9 if is_causal else LENGTH
        assert torch.equal(chunk.mask(), whole.mask()[..., 4:9, :num_keys])
        assert not whole.mask()[..., 4:9, num_keys:].any()


@pytest.mark.parametrize("estimator", ["straight_through", "reinforce"])
def test_places_are_chosen_as_often_as_they_weigh_in_chunks(estimator: str) -> None:
    rows, places = 20_000, 4
    mixer = build_mixer("hard_attention", dim=places, heads=1, estimator=estimator, soft_share=0.0)
    for each in (mixer.value, mixer.output):
        torch.nn.init.eye_(each.weight)
    x = torch.randn(1, 1, places).expand(1, rows, -1)
    context = torch.eye(places)[None]
    torch.manual_seed(2)
    with chunks_of(1000), torch.no_grad():
        read = mixer.train()(x, context=context)[0]
    assert set(read.unique().tolist()) == {0.0, 1.0}
    weights = mixer.attention_weights(x[:, :1], context=context)[0, 0, 0]
    errors = (read.mean(dim=0) - weights).abs() / (weights * (1 - weights) / rows).sqrt()
    assert errors.max() < 4


@pytest.mark.parametrize(("name", "knobs"), [DETERMINISTIC[0], DETERMINISTIC[2], SAMPLED[0]])
def test_memory_grows_with_the_pairs_of_a_chunk(name: str, knobs: dict[str, Any]) -> None:
    length = 512
    mixer = built(name, is_causal=True, length=length, **knobs)
    x = torch.randn(1, length, DIM, requires_grad=True)

    def step() -> None:
        torch.autograd.grad(mixer(x).sum(), [x, *mixer.parameters()])

    with chunks_of(math.inf):
        whole = growth_bytes(step, "cpu")
    with chunks_of(length // 16):
        chunks = growth_bytes(step, "cpu")
    assert chunks < whole / 5


@pytest.mark.parametrize(("name", "knobs"), [DETERMINISTIC[0], *DETERMINISTIC[2:6], *SAMPLED])
def test_a_graph_can_hold_the_chunks(name: str, knobs: dict[str, Any]) -> None:
    mixer = built(name, is_causal=True, **knobs).to("meta")
    x = torch.empty(BATCH, LENGTH, DIM, device="meta", requires_grad=True)
    with chunks_of(4), refusing_what_no_graph_holds("meta"):
        torch.autograd.grad(mixer(x).sum(), [x, *mixer.parameters()])


@pytest.mark.slow
def test_the_compiler_takes_chunks_as_one_graph() -> None:
    mixer, x = built("talking_heads", is_causal=True), torch.randn(BATCH, LENGTH, DIM)
    with chunks_of(5):
        compiled = torch.compile(mixer, backend="aot_eager", fullgraph=True)
        found = outputs_and_gradients(compiled, x, None)
        torch.testing.assert_close(found, outputs_and_gradients(mixer, x, None))


def test_a_cpu_computes_all_pairs_at_once() -> None:
    assert not is_in_chunks(torch.empty(1, 1, 10_000, 1))
    with chunks_of(4):
        assert is_in_chunks(torch.empty(1, 1, 5, 1))
        assert not is_in_chunks(torch.empty(1, 1, 4, 1))
    assert not is_in_chunks(torch.empty(1, 1, 5, 1))


@pytest.mark.gpu
def test_a_gpu_uses_chunks_and_gives_what_the_cpu_gives() -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    for name, knobs in (DETERMINISTIC[0], DETERMINISTIC[2]):
        mixer = built(name, is_causal=True, length=600, **knobs).double()
        x = torch.randn(BATCH, 600, DIM, dtype=torch.float64)
        expected = outputs_and_gradients(mixer, x, None)
        assert is_in_chunks(x.cuda())
        found = outputs_and_gradients(mixer.cuda(), x.cuda(), None)
        torch.testing.assert_close([each.cpu() for each in found], expected)

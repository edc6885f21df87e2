"""Check properties of LSH attention that the reference does not cover."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Mixer, ModelError, build_mixer
from bakeoff.models.kernels.softmax_attention import merge_heads, split_heads
from bakeoff.models.mixers.sparse.lsh_attention import factors_of
from tests.models import small_models

tokens = partial(small_models.tokens, 40)


def build(**knobs: Any) -> Mixer:
    torch.manual_seed(0)
    knobs = {"heads": 2, "max_length": 40, **knobs}
    return build_mixer("lsh_attention", dim=8, **knobs).double().eval()


def full_attention(mixer: Mixer, x: Tensor) -> Tensor:
    """Compute attention with shared queries and keys of length 1, to all but the token itself."""
    queries, values = (split_heads(each(x), 2) for each in (mixer.query, mixer.value))
    lengths = (queries.square().sum(dim=-1, keepdim=True) + 4e-6).sqrt()
    scores = queries @ (queries / lengths).mT
    scores.diagonal(dim1=-2, dim2=-1).fill_(-1e5)
    if mixer.is_causal:
        scores += torch.full_like(scores[0, 0], -1e9).triu(1)
    merged: Tensor = mixer.output(merge_heads(scores.softmax(dim=-1) @ values))
    return merged


def in_training(mixer: Mixer, x: Tensor) -> Tensor:
    torch.manual_seed(1)
    output: Tensor = mixer.train()(x)
    return output


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("chunk", [40, 20], ids=["one-chunk", "two-chunks"])
def test_where_all_meet_it_is_full_attention(chunk: int, is_causal: bool) -> None:
    """Check one bucket and one chunk, or two chunks in one round, which attend to each other."""
    mixer, x = build(buckets=1, rounds=1, chunk=chunk, is_causal=is_causal), tokens()
    torch.testing.assert_close(mixer(x), full_attention(mixer, x))


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("knobs", [{"rounds": 0}, {"rounds": 3, "read_rounds": 0}], ids=str)
def test_without_rounds_it_is_full_attention(knobs: dict[str, int], is_causal: bool) -> None:
    """Check small chunks, padded or not: the outputs equal those of one bucket in one chunk."""
    mixer, x = build(chunk=4, is_causal=is_causal, **knobs), tokens()
    torch.testing.assert_close(mixer(x), full_attention(mixer, x))
    torch.testing.assert_close(mixer(x), mixer.reference(x))
    one_chunk = build(buckets=1, rounds=1, chunk=40, is_causal=is_causal)
    one_chunk.load_state_dict(mixer.state_dict() | {"rotations": one_chunk.rotations})
    torch.testing.assert_close(mixer(x), one_chunk(x), rtol=0, atol=0)
    mask = (torch.arange(40) < 15).expand(len(x), 40)
    torch.testing.assert_close(mixer(x, mask)[:, :15], mixer(x[:, :15]))


def test_without_rounds_nothing_is_drawn_in_training() -> None:
    mixer, x = build(rounds=0, chunk=4).train(), tokens()
    assert torch.equal(mixer(x), mixer(x))


@pytest.mark.parametrize("rounds", [0, 1, 3])
@pytest.mark.parametrize("read_rounds", [1, 2, 3, 5])
def test_a_model_is_read_by_other_rounds_than_it_was_trained_with(
    rounds: int, read_rounds: int
) -> None:
    """Check a read by the first of its hashes, or by more; they do not depend on its weights."""
    trained, x = build(rounds=rounds, chunk=4), tokens()
    read = build(rounds=rounds, read_rounds=read_rounds, chunk=4)
    read.load_state_dict(trained.state_dict())
    torch.testing.assert_close(read(x), read.reference(x))
    assert torch.equal(read(x), trained(x)) == (rounds == read_rounds)
    plain = build(rounds=read_rounds, chunk=4)
    plain.load_state_dict(trained.state_dict() | {"rotations": read.hashes})
    torch.testing.assert_close(read(x), plain(x), rtol=0, atol=0)
    assert torch.equal(in_training(read, x), in_training(trained, x))


def test_rounds_below_none_are_refused() -> None:
    for key in ("rounds", "read_rounds"):
        with pytest.raises(ModelError, match=f"lsh_attention: {key}=-1 is below 0"):
            build(**{key: -1})


def test_with_one_bucket_chunks_are_of_neighbours() -> None:
    """Check that a change reaches its own chunk and the next, and from the last the first."""
    mixer, x = build(buckets=1, chunk=10), tokens(batch=1)
    changed = x.clone()
    changed[:, 35] += 1
    reached = (mixer(x) != mixer(changed)).any(dim=-1)[0].view(4, 10).all(dim=1)
    assert reached.tolist() == [True, False, False, True]


def test_tokens_that_point_the_same_way_meet() -> None:
    """Check twenty pairs of distant twins: each finds its twin in one of many rounds."""
    mixer = build(rounds=8, chunk=2, buckets=16, heads=1)
    with torch.no_grad():
        for linear in (mixer.query, mixer.value, mixer.output):
            linear.weight.copy_(torch.eye(8))
    halves = tokens(batch=1)[:, :20]
    x = 30 * torch.cat([halves, halves], dim=1)
    found = (mixer(x) - x).norm(dim=-1) < 1e-3 * x.norm(dim=-1)
    assert found.double().mean() > 0.8


def test_hashes_are_drawn_anew_in_training_alone() -> None:
    mixer, x = build(chunk=5), tokens()
    assert torch.equal(mixer(x), mixer(x))
    mixer.train()
    assert not torch.equal(mixer(x), mixer(x))
    state = torch.get_rng_state()
    first = mixer(x)
    torch.set_rng_state(state)  # like the recomputation of a reversible stack
    assert torch.equal(mixer(x), first)


def test_a_causal_output_depends_on_no_later_contents() -> None:
    """Check several chunks too: chunk membership may change, but no gradient passes."""
    mixer, x = build(chunk=5, is_causal=True), tokens(batch=1).requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x)[:, :17].sum(), x)
    assert torch.all(gradient[:, 17:] == 0)
    assert torch.all(gradient[:, :17].abs().sum(dim=-1) > 0)


def test_padding_of_whole_chunks_changes_nothing() -> None:
    mixer, x = build(chunk=4), tokens()
    mask = (torch.arange(40) < 15).expand(len(x), 40)
    torch.testing.assert_close(mixer(x, mask)[:, :15], mixer(x[:, :15]))


@pytest.mark.parametrize(
    ("buckets", "factors"), [(1, ()), (2, (2,)), (128, (128,)), (130, (16, 8)), (1024, (32, 32))]
)
def test_many_buckets_are_pairs_of_hashes(buckets: int, factors: tuple[int, ...]) -> None:
    assert factors_of(buckets) == factors


def test_a_pair_of_hashes_equals_the_reference() -> None:
    mixer, x = build(buckets=256, chunk=3), tokens(batch=1)
    torch.testing.assert_close(mixer(x), mixer.reference(x))


def test_odd_buckets_are_refused() -> None:
    with pytest.raises(ModelError, match="buckets=3 is neither 0 nor 1 nor an even number above"):
        build(buckets=3)

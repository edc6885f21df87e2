"""Check that our sparse mixers equal those of `transformers`, hashes and chunks included.

The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import pytest
import torch

from bakeoff.models import Mixer, build_mixer

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the package raises warnings about its own parts
]

DIM, HEADS, LENGTH = 16, 2, 48
X = torch.randn(3, LENGTH, DIM, generator=torch.Generator().manual_seed(1))


def build(name: str, **knobs: object) -> Mixer:
    torch.manual_seed(0)
    mixer = build_mixer(name, dim=DIM, heads=HEADS, max_length=LENGTH, **knobs).eval()
    mixer.output.weight.data = torch.eye(DIM)  # theirs has no output map
    return mixer


@pytest.mark.parametrize("landmarks", [4, 16])
def test_nystromformer_is_that_of_transformers(landmarks: int) -> None:
    from transformers import NystromformerConfig
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    ours = build("nystromformer", landmarks=landmarks, kernel_size=5)
    config = NystromformerConfig(
        hidden_size=DIM,
        num_attention_heads=HEADS,
        segment_means_seq_len=LENGTH,
        num_landmarks=landmarks,
        conv_kernel_size=5,
    )
    theirs = NystromformerSelfAttention(config).eval()
    theirs.init_option = "exact"  # the norm of each matrix, not the largest of a batch
    for part in ("query", "key", "value"):
        getattr(theirs, part).weight.data = getattr(ours, part).weight.data
        getattr(theirs, part).bias.data.zero_()
    theirs.conv.weight.data = ours.taps.data[:, None, :, None]
    with torch.no_grad():
        torch.testing.assert_close(ours(X), theirs(X)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("rounds", "chunk"), [(1, 8), (3, 8), (2, 64)])
def test_lsh_attention_is_that_of_transformers(rounds: int, chunk: int, is_causal: bool) -> None:
    from transformers import ReformerConfig
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    ours = build("lsh_attention", rounds=rounds, chunk=chunk, buckets=8, is_causal=is_causal)
    config = ReformerConfig(
        hidden_size=DIM,
        num_attention_heads=HEADS,
        attention_head_size=DIM // HEADS,
        num_hashes=rounds,
        num_buckets=8,
        lsh_attn_chunk_length=chunk,
        is_decoder=is_causal,
        lsh_num_chunks_before=1,
        lsh_num_chunks_after=0,
        hash_seed=5,
    )
    theirs = LSHSelfAttention(config).eval()
    theirs.query_key.weight.data = ours.query.weight.data
    theirs.value.weight.data = ours.value.weight.data
    torch.manual_seed(5)
    drawn = torch.randn(HEADS, DIM // HEADS, rounds, 4)
    ours.rotations = drawn.permute(0, 2, 3, 1).contiguous()
    with torch.no_grad():
        expected = theirs(X, num_hashes=rounds).hidden_states
        found = ours(X)
    # Skip tokens that may be alone: theirs joins rounds by differences of numbers near -1e5.
    first = 2 if is_causal else 0
    torch.testing.assert_close(found[:, first:], expected[:, first:], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.02)

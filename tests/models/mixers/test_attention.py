"""Check properties of softmax attention that the reference does not cover."""

import math

import pytest
import torch

from bakeoff.models import build_mixer
from bakeoff.models.kernels.softmax_attention import draw_projections, merge_heads, split_heads
from bakeoff.suite.probes.tensor_bytes import growth_bytes
from tests.models.small_models import stepped, tokens


@pytest.mark.parametrize("scale", ["1/sqrt(d)", "none"])
def test_one_head_is_the_plain_formula(scale: str) -> None:
    mixer, x = build_mixer("attention", dim=8, heads=1, scale=scale).double(), tokens()
    query, key, value = (x @ w.weight.T for w in (mixer.query, mixer.key, mixer.value))
    scores = query @ key.transpose(1, 2) / (math.sqrt(8) if scale == "1/sqrt(d)" else 1)
    expected = scores.softmax(dim=-1) @ value @ mixer.output.weight.T
    torch.testing.assert_close(mixer(x), expected)


@pytest.mark.parametrize("key_dim", [8, 64, 512])
def test_unscaled_scores_have_variance_d_and_scaled_ones_have_one(key_dim: int) -> None:
    """Check the premise of 1/sqrt(d): footnote 4 of the paper, at this module's initialisation.

    Check it also for keys wider or narrower than a share of the model.
    """
    torch.manual_seed(0)
    mixer = build_mixer("attention", dim=256, heads=4, key_dim=key_dim).double()
    x = tokens(64, 256, batch=4)
    queries, keys, _ = mixer._project(x, None, None, None)
    variance = (queries @ keys.transpose(-1, -2)).var().item()
    assert variance == pytest.approx(key_dim, rel=0.15)
    assert variance * mixer.scale**2 == pytest.approx(1, rel=0.15)


def test_square_projections_start_by_xaviers_rule_bit_by_bit() -> None:
    for width in (8, 48, 64, 512):
        ours, xaviers = torch.nn.Linear(width, width), torch.empty(width, width)
        torch.manual_seed(0)
        draw_projections(ours)
        torch.manual_seed(0)
        assert torch.equal(ours.weight, torch.nn.init.xavier_uniform_(xaviers))


SCALED = [
    (score, scale)
    for score in ("dot", "general", "additive", "cosine")
    for scale in (None, "none", "1/d", "learned")
]


@pytest.mark.parametrize("kernel", ["fused", "materialised"])
@pytest.mark.parametrize(("score", "scale"), SCALED, ids=lambda value: str(value))
def test_a_temperature_divides_every_scaled_score(
    score: str, scale: str | None, kernel: str
) -> None:
    """Check both kernels, the weights, the step and the reference: log weights shrink."""
    if score == "additive" and kernel == "fused":
        return
    knobs = {"heads": 2, "score": score, "scale": scale, "kernel": kernel, "is_causal": True}
    warm, cold = (
        build_mixer("attention", dim=8, temperature=temperature, **knobs).double()
        for temperature in (2.5, 1.0)
    )
    warm.load_state_dict(cold.state_dict())
    x = tokens()
    weights = warm.attention_weights(x)
    tempered = cold.attention_weights(x).pow(1 / 2.5)
    torch.testing.assert_close(weights, tempered / tempered.sum(dim=-1, keepdim=True))
    mixed = merge_heads(weights @ split_heads(warm.value(x), 2))
    torch.testing.assert_close(warm(x), warm.output(mixed))
    torch.testing.assert_close(warm.reference(x), warm(x))
    torch.testing.assert_close(stepped(warm, x), warm(x))


def test_a_temperature_of_one_is_no_work_and_no_other_bit() -> None:
    for scale in ("1/sqrt(d)", "1/d", "none"):
        mixer = build_mixer("attention", dim=8, scale=scale, temperature=1.0)
        assert mixer.scale == {"1/sqrt(d)": 2**-0.5, "1/d": 1 / 2, "none": 1.0}[scale]
    assert build_mixer("attention", dim=8, scale="learned").scale == 1.0


@pytest.mark.parametrize("score", ["dot", "cosine", "additive"])
@pytest.mark.parametrize("scale", ["none", "learned"])
def test_the_bytes_of_a_temperature_are_in_the_formula(scale: str, score: str) -> None:
    """Check that the materialised kernel's formula counts the scaled copy of queries or scores."""
    knobs = {"kernel": "materialised", "scale": scale, "score": score, "temperature": 2.0}
    mixer = build_mixer("attention", dim=64, max_length=160, **knobs)
    with torch.no_grad():
        held = growth_bytes(lambda: mixer(tokens(160, 64).float()), "cpu")
    assert mixer.forward_bytes(160, 2) == pytest.approx(held, rel=0.05)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("score", ["dot", "general", "additive", "cosine"])
def test_weights_applied_to_values_are_the_output(score: str, is_causal: bool) -> None:
    mixer = build_mixer("attention", dim=8, is_causal=is_causal, score=score).double()
    x, mask = tokens(), torch.tensor([[True] * 7, [False, True, True, False, True, False, False]])
    values = split_heads(mixer.value(x * mask.unsqueeze(-1)), 4)
    expected = mixer.output(merge_heads(mixer.attention_weights(x, mask) @ values))
    torch.testing.assert_close(mixer(x, mask), expected)


def test_huge_scores_stay_finite_and_pick_one_token() -> None:
    mixer, x = build_mixer("attention", dim=8, heads=1, scale="none").double(), 1e4 * tokens()
    weights = mixer.attention_weights(x)
    assert mixer(x).isfinite().all()
    torch.testing.assert_close(weights.amax(dim=-1), torch.ones(2, 1, 7, dtype=torch.float64))


def test_a_query_that_may_see_nothing_takes_only_the_output_bias() -> None:
    mixer, x = build_mixer("attention", dim=8, bias=True).double(), tokens().requires_grad_()
    output = mixer(x, torch.zeros(2, 7, dtype=torch.bool))
    torch.testing.assert_close(output, mixer.output.bias.expand_as(x))
    output.sum().backward()
    assert torch.all(x.grad == 0)


def test_context_may_have_another_length_and_its_order_is_free() -> None:
    mixer, x, context = build_mixer("attention", dim=8).double(), tokens(), tokens(5, seed=2)
    output = mixer(x, context=context)
    torch.testing.assert_close(output, mixer(x, context=context.flip(1)))
    assert mixer.attention_weights(x, context=context).shape == (2, 4, 7, 5)
    torch.testing.assert_close(mixer(x, context=x), mixer(x))


def test_the_module_of_torch_with_the_same_weights_gives_the_same() -> None:
    x, ours = tokens(), build_mixer("attention", dim=8, heads=4, bias=True).double()
    theirs = torch.nn.MultiheadAttention(8, 4, batch_first=True).double()
    linears = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.data = torch.cat([linear.weight for linear in linears])
    theirs.in_proj_bias.data = torch.cat([linear.bias for linear in linears])
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    mask = torch.tensor([[True] * 7, [True] * 3 + [False] * 4])
    output, weights = theirs(x, x, x, key_padding_mask=~mask, average_attn_weights=False)
    torch.testing.assert_close(ours(x, mask)[mask], output[mask])
    torch.testing.assert_close(ours.attention_weights(x, mask)[0], weights[0])


@pytest.mark.parametrize("kernel", ["fused", "materialised"])
def test_a_kernel_is_what_it_says(kernel: str) -> None:
    """Check that only the materialised kernel allocates the n x n matrix of every head."""
    mixer, x = build_mixer("attention", dim=8, heads=2, kernel=kernel), tokens(512, batch=1).float()
    with torch.profiler.profile(profile_memory=True) as profile, torch.no_grad():
        mixer(x)
    largest = max(event.self_cpu_memory_usage for event in profile.events())
    assert (largest >= 2 * 512 * 512 * 4) == (kernel == "materialised")


def test_a_learned_temperature_starts_where_it_says() -> None:
    x = tokens()
    for score, scale in (("dot", 2**-0.5), ("cosine", 10.0)):
        torch.manual_seed(0)
        learned = build_mixer("attention", dim=8, score=score, scale="learned").double()
        torch.manual_seed(0)
        plain = build_mixer("attention", dim=8, score=score, scale="none").double()
        plain.query.weight.data *= scale if score == "dot" else 1
        plain.scale = scale if score == "cosine" else 1.0
        torch.testing.assert_close(learned(x), plain(x), rtol=1e-6, atol=1e-6)


def test_by_default_every_score_has_a_preference_of_like_strength() -> None:
    """Check each score's default scale; at one scale, additive and cosine are near uniform."""
    x = tokens(64, 64, batch=4)
    for score in ("dot", "general", "additive", "cosine"):
        torch.manual_seed(0)
        weights = build_mixer("attention", dim=64, score=score).double().attention_weights(x)
        assert 3 < weights.amax(dim=-1).mean().item() * 64 < 32, score


def test_cosine_scores_of_nothing_are_numbers_in_half_precision() -> None:
    mixer, x = build_mixer("attention", dim=8, score="cosine").half(), tokens().half()
    x[:, 3] = 0
    assert mixer(x).isfinite().all()


def test_cosine_scores_forget_how_long_a_token_is() -> None:
    mixer, x = build_mixer("attention", dim=8, heads=1, score="cosine").double(), tokens()
    weights = mixer.attention_weights(x)
    torch.testing.assert_close(mixer.attention_weights(3 * x), weights)


def test_tied_keys_are_the_values() -> None:
    torch.manual_seed(0)
    tied, x = build_mixer("attention", dim=8, has_tied_values=True).double(), tokens()
    untied = build_mixer("attention", dim=8).double()
    state = tied.state_dict()
    untied.load_state_dict({**state, "value.weight": state["key.weight"]})
    torch.testing.assert_close(tied(x), untied(x))
    assert untied.num_parameters() - tied.num_parameters() == 8 * 8

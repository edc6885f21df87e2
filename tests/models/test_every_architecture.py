"""Check every architecture with every mixer that it can hold, and with every knob."""

import math
from dataclasses import MISSING, fields, replace

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models import (
    ARCHITECTURES,
    MIXERS,
    POSITIONS,
    Architecture,
    ModelError,
    ModelSpec,
    StackArchitecture,
    architecture_class,
    mixer_class,
)
from tests import battery
from tests.models.small_models import (
    BATCH,
    DEPTH,
    DIM,
    LENGTH,
    OF_ONE_INPUT,
    SYMBOLS,
    build,
    every_kind,
    inputs,
    outputs,
    predicts_tokens,
    reads_pairs,
    spec,
)

STACKS = [
    name
    for name in ARCHITECTURES
    if issubclass(architecture_class(name), StackArchitecture)
    and architecture_class(name).takes == StackArchitecture.takes
]
PAIRINGS = [(name, mixer) for name in OF_ONE_INPUT if name in STACKS for mixer in MIXERS]
# Settings of models that read only the first token, which attends to no other in some mixers.
OF_ALL_TOKENS = {"bert_classifier": {"pooling": "mean"}}
FITTING = [
    spec(architecture, mixer, **OF_ALL_TOKENS.get(architecture, {}))
    for architecture, mixer in PAIRINGS
    if mixer_class(mixer).supports_causal or not architecture_class(architecture).is_causal
]
# A vision transformer is compared with a classifier of its patches, in a separate file.
OF_SEQUENCES = [each for each in FITTING if each.grid is None]
COUNTED_BY_HAND = (
    "language_model",
    "masked_language_model",
    "tagger",
    "classifier",
    "pair_classifier",
)
# By default each mixer stands in one architecture, causal if it can be, and each architecture holds
# attention; the battery combines them.
ONCE = {
    each.mixer: each
    for name in ("classifier", "language_model")
    for each in OF_SEQUENCES
    if each.architecture == name
}
if not battery.is_wanted:
    OF_SEQUENCES = [e for e in OF_SEQUENCES if e.mixer == "attention" or e is ONCE[e.mixer]]
every_model = pytest.mark.parametrize(
    "model_spec", OF_SEQUENCES, ids=lambda s: f"{s.architecture}-{s.mixer}"
)
each_architecture = pytest.mark.parametrize(
    "model_spec",
    [each for each in every_kind(mixer="conv") if each.architecture in STACKS],
    ids=lambda s: f"{s.architecture}-{s.input_kind}",
)


@each_architecture
def test_no_two_drawn_parameters_are_equal(model_spec: ModelSpec) -> None:
    """Check parts of one shape: equal initial values show that one stream was used twice."""
    by_shape: dict[torch.Size, list[Tensor]] = {}
    for parameter in build(model_spec).parameters():
        if parameter.unique().numel() > 1:  # zeros and ones are not drawn
            by_shape.setdefault(parameter.shape, []).append(parameter)
    for alike in by_shape.values():
        for i, parameter in enumerate(alike):
            assert not any(torch.equal(parameter, other) for other in alike[:i])


def num_sequences(model_spec: ModelSpec) -> int:
    return BATCH * (2 if reads_pairs(model_spec) else 1)


def outside_the_blocks(model_spec: ModelSpec) -> int:
    """Count the parameters outside the blocks by hand."""
    embedding = SYMBOLS * DIM + (DIM if model_spec.input_kind == "vectors" else 0)
    position, norm = LENGTH * DIM, 2 * DIM
    read_by_the_head = 4 * DIM if reads_pairs(model_spec) else DIM
    is_tied = "language_model" in model_spec.architecture
    head = 0 if is_tied else (read_by_the_head + 1) * SYMBOLS
    return embedding + position + norm + head


@every_model
def test_every_mixer_fits_and_every_parameter_gets_a_gradient(model_spec: ModelSpec) -> None:
    model = build(model_spec)
    _move_from_zero(model)
    logits = model(inputs(model_spec))
    per_token = (LENGTH,) if predicts_tokens(model_spec) else ()
    assert logits.shape == (BATCH, *per_token, SYMBOLS)
    assert logits.std() < 3
    targets = torch.arange(logits[..., 0].numel()) % SYMBOLS
    cross_entropy(logits.flatten(0, -2), targets).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def _move_from_zero(model: Architecture) -> None:
    """Move zero maps: a zero factor of low rank leaves the other factor without a gradient."""
    for parameter in model.parameters():
        if parameter.dim() > 1 and not parameter.any():
            torch.nn.init.normal_(parameter.data, std=0.1)


@pytest.mark.parametrize(
    ("architecture", "mixer"),
    [p for p in PAIRINGS if p not in [(s.architecture, s.mixer) for s in FITTING]],
)
def test_a_mixer_that_does_not_fit_is_refused_with_its_reason(
    architecture: str, mixer: str
) -> None:
    why = mixer_class(mixer).why_not_causal
    with pytest.raises(ModelError) as refused:
        build(spec(architecture, mixer))
    assert str(refused.value) == f"{mixer} cannot stand in {architecture}, which is causal: {why}"


@pytest.mark.parametrize(
    "model_spec",
    [each for each in OF_SEQUENCES if each.architecture in COUNTED_BY_HAND],
    ids=lambda s: f"{s.architecture}-{s.mixer}",
)
def test_parameters_and_flops_are_the_sums_over_parts(model_spec: ModelSpec) -> None:
    model, num = build(model_spec), num_sequences(model_spec)
    mixers = [block.mixer for block in model.trunk.blocks]
    in_mixers = {p: p.numel() for mixer in mixers for p in mixer.parameters()}
    mlp_and_norms = (2 * 4 * DIM * DIM + 4 * DIM + DIM) + 2 * 2 * DIM
    blocks = sum(in_mixers.values()) + DEPTH * mlp_and_norms
    assert model.num_parameters() == outside_the_blocks(model_spec) + blocks
    mlp = num * LENGTH * 2 * (2 * DIM * 4 * DIM)
    rows = BATCH * LENGTH if predicts_tokens(model_spec) else num * (2 if num > BATCH else 1)
    assert model.flops(LENGTH, BATCH) == pytest.approx(
        sum(mixer.flops(LENGTH, num) + mlp for mixer in mixers) + rows * 2 * DIM * SYMBOLS,
        rel=1e-12,
    )


@pytest.mark.parametrize(
    "model_spec",
    [
        *every_kind(mixer="conv"),
        spec("tagger", "conv", feed_forward="swiglu", feed_forward_ratio=2.6),
        spec("tagger", "conv*2+gated_conv", depth=4),
    ],
    ids=lambda s: f"{s.architecture}-{s.input_kind}-{'-'.join(map(str, s.settings.values()))}",
)
def test_flops_by_formula_equal_the_counter(model_spec: ModelSpec) -> None:
    model, counter = build(model_spec), FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter, torch.no_grad():
        model(inputs(model_spec))
    assert model.flops(model_spec.length, BATCH) == counter.get_total_flops()


def real(model_spec: ModelSpec) -> Tensor:
    """Return masks: whole, cut short, nothing but padding; both sequences of a pair alike."""
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [5], [0]])
    return mask.unsqueeze(1).expand(-1, 2, -1) if reads_pairs(model_spec) else mask


@pytest.mark.parametrize(
    "model_spec",
    [
        *OF_SEQUENCES,
        *(each for each in every_kind() if each.input_kind == "vectors"),
        *(
            replace(each, settings={"norm_placement": "post"})
            for each in every_kind()
            if each.grid is None
            and hasattr(architecture_class(each.architecture).Config(), "norm_placement")
        ),
    ],
    ids=lambda s: f"{s.architecture}-{s.mixer}-{s.input_kind}-{s.settings.get('norm_placement')}",
)
def test_what_stands_at_padded_positions_is_never_read(model_spec: ModelSpec) -> None:
    model = build(model_spec).double().eval()
    x, mask = inputs(model_spec), real(model_spec)
    if model_spec.input_kind == "vectors":
        x = x.double()
        garbage = x.masked_fill(~mask.unsqueeze(-1), math.nan)
    else:
        garbage = x.masked_fill(~mask, -1)
    kept = mask if predicts_tokens(model_spec) else slice(None)
    outputs = [model(given, mask)[kept] for given in (x, garbage)]
    assert outputs[0].isfinite().all()
    assert torch.equal(*outputs)
    assert_same_gradients(model, outputs)
    if not model_spec.mixer or mixer_class(model_spec.mixer).mask_mode == "exact":
        shorter = model(x[1:2, ..., :5] if x.dtype is torch.long else x[1:2, ..., :5, :])
        padded = model(x, mask)[1:2]
        same = padded[:, :5] if predicts_tokens(model_spec) else padded
        torch.testing.assert_close(same, shorter)


def assert_same_gradients(model: Architecture, outputs: list[Tensor]) -> None:
    parameters = list(model.parameters())
    found = [torch.autograd.grad(output.square().sum(), parameters) for output in outputs]
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)
        assert a.isfinite().all()


each_start = pytest.mark.parametrize(
    "initialisation", ["scaled_normal", "truncated_normal", "xavier_uniform"]
)


@each_start
@each_architecture
def test_variants_of_a_seed_start_alike_outside_the_mixer(
    model_spec: ModelSpec, initialisation: str
) -> None:
    model_spec = replace(model_spec, settings={"initialisation": initialisation})
    ours = build(model_spec).state_dict()
    theirs = build(replace(model_spec, mixer="lstm")).state_dict()
    shared = [key for key in ours if ".mixer." not in key]
    assert len(shared) >= 14
    assert all(torch.equal(ours[key], theirs[key]) for key in shared)
    other_seed = build(model_spec, 1).state_dict()
    assert any(not torch.equal(ours[key], value) for key, value in other_seed.items())
    deep = build(replace(model_spec, depth=3)).state_dict()
    assert all(torch.equal(value, deep[key]) for key, value in ours.items())
    first, second = (deep[f"trunk.blocks.{i}.mlp.expand.weight"] for i in (0, 1))
    assert not torch.equal(first, second)


@each_architecture
def test_an_empty_batch_has_no_logits(model_spec: ModelSpec) -> None:
    assert build(model_spec).eval()(inputs(model_spec)[:0]).shape[0] == 0


@each_architecture
def test_bfloat16_stays_bfloat16(model_spec: ModelSpec) -> None:
    for settings in ({}, {"position_mode": "concatenated"}):
        model = build(replace(model_spec, settings=settings)).bfloat16().eval()
        x = inputs(model_spec)
        logits = model(x if x.dtype is torch.long else x.bfloat16())
        assert logits.dtype is torch.bfloat16
        assert logits.isfinite().all()


# Knobs.


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_knob_is_documented_and_has_a_default(architecture: str) -> None:
    config = architecture_class(architecture).Config
    assert config.__dataclass_params__.frozen
    documented = [kind.__doc__ or "" for kind in config.__mro__]
    for field in fields(config):
        assert field.default is not MISSING, field.name
        assert any(f"{field.name}:" in each for each in documented), field.name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_setting_left_out_has_its_default(architecture: str) -> None:
    written = vars(architecture_class(architecture).Config())
    ours, theirs = (build(each) for each in (spec(architecture), spec(architecture, **written)))
    assert torch.equal(outputs(ours), outputs(theirs))


@pytest.mark.parametrize("architecture", STACKS)
def test_a_setting_that_cannot_be_is_refused(architecture: str) -> None:
    for settings, message in (
        ({"dropout": 1}, "dropout=1.0 is not at least 0 and below 1"),
        ({"dropout": -0.1}, "dropout=-0.1 is not at least 0"),
        ({"dropout": "0.1"}, "dropout='0.1' is not allowed"),
        ({"norm_placment": "post"}, "no knob 'norm_placment'; did you mean 'norm_placement'"),
        ({"norm_placement": "both"}, "norm_placement='both' is not allowed, give 'pre' or 'post'"),
        ({"has_residual": 1}, "has_residual=1 is not allowed, give True or False"),
        ({"stochastic_depth": 1}, "stochastic_depth=1.0 is not at least 0 and below 1"),
        ({"norm_eps": 0}, "norm_eps=0.0 is not above 0"),
        ({"feed_forward_ratio": -1}, "feed_forward_ratio=-1.0 is not above 0"),
        ({"residual": "scaled", "norm_placement": "post"}, "residual='scaled' is undone by norm_"),
        ({"residual": "scaled", "has_residual": False}, "residual='scaled' needs a sum, and has_"),
        ({"layer_scale": 0, "has_residual": False}, "layer_scale=0.0 needs a sum, and has_resi"),
    ):
        with pytest.raises(ModelError, match=message) as refused:
            build(spec(architecture, **settings))
        assert str(refused.value).startswith(architecture)


@pytest.mark.parametrize("position", [name for name in POSITIONS if name != "none"])
def test_positions_tell_attention_how_tokens_are_ordered(position: str) -> None:
    model_spec = spec("classifier", position=position, input_kind="vectors")
    blind = replace(model_spec, position="none")
    x = inputs(model_spec).double()
    shuffle = torch.randperm(LENGTH, generator=torch.Generator().manual_seed(0))
    for each, is_blind in ((model_spec, False), (blind, True)):
        model = build(each).double()
        same = torch.allclose(model(x), model(x[:, shuffle]), rtol=0, atol=1e-10)
        assert same == is_blind

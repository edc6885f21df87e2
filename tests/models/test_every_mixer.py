"""The contract, once over every mixer: a newcomer's mixer is tested the day its line is added.

Cases are made from the registry: each mixer, causal where it can be, with its default knobs and
with every knob changed in turn. Exceptions are traits declared on the mixer, never names here.
"""

import math
from dataclasses import MISSING, dataclass, fields
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from models import MIXERS, Mixer, ModelError, build_mixer, mixer_class

DIM = 8
LENGTHS = (1, 2, 3, 17)


@dataclass(frozen=True)
class Case:
    name: str
    is_causal: bool
    knob: str = ""
    value: Any = None

    def __str__(self) -> str:
        form = "causal" if self.is_causal else "full"
        return f"{self.name}-{form}" + (f"-{self.knob}={self.value}" if self.knob else "")

    def build(self, dim: int = DIM, dtype: torch.dtype = torch.float64) -> Mixer:
        torch.manual_seed(0)
        knobs = {self.knob: self.value} if self.knob else {}
        built = build_mixer(self.name, dim=dim, max_length=32, is_causal=self.is_causal, **knobs)
        return built.to(dtype)


def alternatives(hint: Any, default: Any) -> list[Any]:
    """Values to try for a knob, besides its default."""
    if get_origin(hint) is Literal:
        candidates = list(get_args(hint))
    elif isinstance(hint, UnionType):
        return [value for option in get_args(hint) for value in alternatives(option, default)]
    else:
        numbers = [1, 2, 3, 5, 8, 16]
        candidates = {bool: [False, True], int: numbers, float: [0.5, 1.0, 2.0]}.get(hint, [None])
    return [value for value in candidates if value != default]


def changed_knobs(name: str, is_causal: bool) -> list[Case]:
    """One case for each knob and up to three other values that the mixer accepts."""
    config = mixer_class(name).Config
    hints = get_type_hints(config)
    cases = []
    for field in fields(config):
        accepted = []
        for value in alternatives(hints[field.name], field.default):
            case = Case(name, is_causal, field.name, value)
            try:
                case.build()
            except ModelError:
                continue
            accepted.append(case)
        assert accepted, f"{name}: no value but the default could be tried for {field.name}"
        cases += accepted[:3]
    return cases


def all_forms() -> list[Case]:
    forms = [Case(name, False) for name in MIXERS]
    return forms + [Case(name, True) for name in MIXERS if mixer_class(name).supports_causal]


FORMS = all_forms()
CHANGED = [case for form in FORMS for case in changed_knobs(form.name, form.is_causal)]
CASES = FORMS + CHANGED

forms = pytest.mark.parametrize("case", FORMS, ids=str)
cases = pytest.mark.parametrize("case", CASES, ids=str)
names = pytest.mark.parametrize("name", list(MIXERS))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def sequence(batch: int, length: int, dim: int = DIM, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, dim, generator=generator, dtype=torch.float64)


def padding(length: int) -> Tensor:
    """Five sequences: whole, right-padded, left-padded, full of holes, nothing but padding."""
    mask = torch.zeros(5, length, dtype=torch.bool)
    mask[0] = True
    mask[1, : (length + 1) // 2] = True
    mask[2, length // 2 :] = True
    mask[3, 1::2] = True
    return mask


def gradients(mixer: Mixer, output: Tensor, weights: Tensor, *inputs: Tensor) -> list[Tensor]:
    """Of a random projection of the output, by each input and each parameter."""
    wanted = [*inputs, *mixer.parameters()]
    if not wanted:  # a mixer without parameters, asked about its parameters
        return []
    found = torch.autograd.grad((output * weights).sum(), wanted, allow_unused=True)
    pairs = zip(found, wanted, strict=True)
    return [torch.zeros_like(w) if g is None else g for g, w in pairs]


def assert_same(fast: list[Tensor], slow: list[Tensor], tolerance: float = 1e-9) -> None:
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("is_padded", [False, True], ids=["whole", "padded"])
@cases
def test_fast_form_equals_reference_forward_and_every_gradient(
    case: Case, is_padded: bool, length: int
) -> None:
    mixer = case.build()
    assert mixer.is_proven()
    mask = padding(length) if is_padded else None
    x = sequence(5 if is_padded else 2, length).requires_grad_()
    weights = sequence(*x.shape, seed=2)
    if mask is not None and mixer.mask_mode == "exact":
        weights = weights * mask.unsqueeze(-1)  # outputs at padded positions mean nothing
    fast, slow = mixer(x, mask), mixer.reference(x, mask)
    assert fast.shape == x.shape
    assert_same([fast * weights], [slow * weights])
    assert_same(gradients(mixer, fast, weights, x), gradients(mixer, slow, weights, x))


@cases
def test_context_equals_reference(case: Case) -> None:
    mixer, x, context = case.build(), sequence(5, 4), sequence(5, 6, seed=2)
    if case.is_causal or not mixer.supports_context:
        with pytest.raises(ModelError, match="takes no context"):
            mixer(x, context=context)
        return
    context.requires_grad_()
    mask, context_mask = padding(4), padding(6)
    weights = sequence(5, 4, seed=3) * mask.unsqueeze(-1)
    fast = mixer(x, mask, context, context_mask)
    slow = mixer.reference(x, mask, context, context_mask)
    assert_same([fast * weights], [slow * weights])
    assert_same(gradients(mixer, fast, weights, context), gradients(mixer, slow, weights, context))
    assert_same([mixer(x, None, context)], [mixer.reference(x, None, context)])
    poisoned = context.masked_fill(~context_mask.unsqueeze(-1), math.nan)
    assert torch.equal(mixer(x, mask, poisoned, context_mask), fast)


@cases
def test_gradients_equal_finite_differences(case: Case) -> None:
    mixer, x = case.build(), sequence(1, 3).requires_grad_()
    parameters = dict(mixer.named_parameters())

    def function(x: Tensor, *values: Tensor) -> Tensor:
        replaced = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(mixer, replaced, (x,))

    assert torch.autograd.gradcheck(function, (x, *parameters.values()), fast_mode=True)


@cases
def test_single_precision_kernels_are_as_good_as_the_reference(case: Case) -> None:
    x = sequence(2, 17)
    truth = case.build().reference(x)
    single = case.build(dtype=torch.float32)
    fast = (single(x.float()) - truth).abs().max()
    slow = (single.reference(x.float()) - truth).abs().max()
    assert fast <= 2 * slow + 1e-6 * truth.abs().max()


def influence(mixer: Mixer, length: int) -> Tensor:
    """`[time, time2]`: the largest derivative of output `time` by input `time2`."""
    x = sequence(1, length).requires_grad_()
    output, direction = mixer(x), sequence(1, length, seed=2)
    rows = [
        torch.autograd.grad((output * direction)[:, t].sum(), x, retain_graph=True)[0]
        for t in range(length)
    ]
    return torch.cat(rows).abs().amax(dim=-1)


@cases
def test_a_causal_form_never_sees_the_future(case: Case) -> None:
    seen = influence(case.build(), length=9)
    if case.is_causal:
        assert torch.all(seen.triu(1) == 0)
    assert torch.all(seen.diagonal() > 0)


@forms
def test_sees_what_its_cost_row_says(case: Case) -> None:
    mixer = case.build()
    seen = influence(mixer, length=9) > 0
    allowed = torch.ones(9, 9, dtype=torch.bool)
    allowed = allowed.tril() if case.is_causal else allowed
    assert seen.diagonal(-1).all(), "a mixer must see at least its neighbour"
    if mixer.cost.maximum_path_length in ("1", "n"):  # in one layer: at once, or by recurrence
        assert torch.equal(seen, allowed)


@cases
def test_sequences_of_a_batch_do_not_see_each_other(case: Case) -> None:
    mixer, x = case.build(), sequence(3, 5).requires_grad_()
    output = mixer(x)
    (gradient,) = torch.autograd.grad((output[1] * sequence(1, 5)).sum(), x)
    assert torch.all(gradient[[0, 2]] == 0)
    assert gradient[1].abs().sum() > 0
    assert_same([output[1:2]], [mixer(x[1:2])], tolerance=1e-12)


@cases
def test_padding_does_what_the_mask_mode_says(case: Case) -> None:
    mixer, mask = case.build(), padding(8)
    poisoned = sequence(5, 8).masked_fill(~mask.unsqueeze(-1), math.nan)
    other = torch.where(mask.unsqueeze(-1), poisoned, sequence(5, 8, seed=5))
    if mixer.mask_mode != "exact":
        padded = mask.any(dim=1) & ~mask.all(dim=1)
        changed = (mixer(other, mask) != mixer(2 * other, mask)).any(dim=-1)
        assert changed[padded].all(), "declare mask_mode='exact' if padding has no influence"
        return
    outputs = [mixer(x, mask) for x in (poisoned, other)]
    assert all(output.isfinite().all() for output in outputs)
    assert torch.equal(outputs[0][mask], outputs[1][mask])
    weights = sequence(5, 8, seed=3) * mask.unsqueeze(-1)
    found = [gradients(mixer, output, weights) for output in outputs]
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)
        assert a.isfinite().all()
    assert_same([outputs[0][1:2, :4]], [mixer(poisoned[1:2, :4])], tolerance=1e-12)


@cases
def test_steps_equal_the_parallel_form(case: Case) -> None:
    mixer, x = case.build(), sequence(2, 9)
    if not (case.is_causal and mixer.supports_step):
        with pytest.raises(ModelError, match="step"):
            mixer.initial_state(2)
        with pytest.raises(ModelError, match="step"):
            mixer.state_bytes(9)
        return
    state, outputs = mixer.initial_state(2), []
    for t in range(9):
        output, state = mixer.step(x[:, t], state)
        outputs.append(output)
        held = sum(part.numel() for part in state) * 4 // 2
        assert mixer.state_bytes(t + 1) == held
    assert_same([torch.stack(outputs, dim=1)], [mixer(x)], tolerance=1e-12)


@cases
def test_is_deterministic_and_survives_a_state_dict(case: Case) -> None:
    mixer, x = case.build(), sequence(2, 7)
    output = mixer(x)
    if not mixer.is_stochastic:
        assert torch.equal(output, mixer(x))
        assert torch.equal(output, case.build()(x))
    copy = case.build()
    for parameter in copy.parameters():
        torch.nn.init.normal_(parameter)
    copy.load_state_dict(mixer.state_dict())
    torch.manual_seed(3)
    expected = mixer(x)
    torch.manual_seed(3)
    assert torch.equal(copy(x), expected)


def fft_flops(shape: tuple[int, ...], dims: list[int], *_: Any, **__: Any) -> float:
    """5 n log2 n for every transform of n: torch's counter knows no FFT."""
    return sum(5 * math.prod(shape) * math.log2(shape[dim]) for dim in dims)


def counted_flops(mixer: Mixer, x: Tensor) -> float:
    """By torch's counter.

    It counts 0 for fused attention on the CPU, so the plain kernel is asked for; and 0 for
    oneDNN's LSTM, which float64 does not use.
    """
    assert x.dtype is torch.float64
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten._fft_c2c: fft_flops})
    with sdpa_kernel(SDPBackend.MATH), counter, torch.no_grad():
        mixer(x)
    return counter.get_total_flops()


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 16), (3, 21)])
@cases
def test_flops_formula_equals_the_counter(case: Case, batch: int, length: int) -> None:
    mixer = case.build()
    assert mixer.has_flops_formula()
    flops = mixer.flops(length, batch)
    assert isinstance(flops, float)
    assert flops >= 0
    assert flops == pytest.approx(counted_flops(mixer, sequence(batch, length)), rel=1e-12)


@pytest.mark.parametrize("case", CHANGED, ids=str)
def test_a_changed_knob_changes_what_it_says(case: Case) -> None:
    """Peers ship knobs that nothing reads; each of ours moves the output, or says it does not."""
    default, changed, x = Case(case.name, case.is_causal).build(), case.build(), sequence(2, 17)
    metadata = {field.name: field.metadata for field in fields(type(changed).Config)}[case.knob]
    is_same = torch.allclose(default(x), changed(x), rtol=1e-6, atol=1e-6)
    assert is_same == metadata.get("cost_only", False)


@names
def test_is_position_aware_is_true_to_its_word(name: str) -> None:
    mixer, x = Case(name, False).build(), sequence(2, 7)
    shuffle = torch.randperm(7, generator=torch.Generator().manual_seed(0))
    is_equivariant = torch.allclose(mixer(x)[:, shuffle], mixer(x[:, shuffle]), atol=1e-9)
    assert mixer.is_position_aware != is_equivariant


@names
def test_declares_what_tables_need(name: str) -> None:
    mixer = mixer_class(name)
    assert mixer.name == name
    assert mixer.paper
    assert mixer.family
    for formula in vars(mixer.cost).values():
        assert eval(formula, {"log2": math.log2}, {"n": 1024, "d": 64, "k": 3, "r": 32}) > 0


@names
def test_config_is_frozen_documented_and_has_defaults(name: str) -> None:
    config = mixer_class(name).Config
    assert config.__dataclass_params__.frozen
    for field in fields(config):
        assert f"{field.name}:" in config.__doc__
        assert field.default is not MISSING


@names
def test_causal_form_is_built_or_refused_with_the_reason(name: str) -> None:
    mixer = mixer_class(name)
    if mixer.supports_causal:
        assert build_mixer(name, is_causal=True).is_causal
        return
    assert mixer.why_not_causal != Mixer.why_not_causal
    with pytest.raises(ModelError, match=f"{name} has no causal form: {mixer.why_not_causal}"):
        build_mixer(name, is_causal=True)


@forms
def test_inputs_of_a_wrong_shape_are_refused(case: Case) -> None:
    mixer = case.build()
    with pytest.raises(ModelError, match=rf"takes \[batch, time, {DIM}\], not \[2, 5, 7\]"):
        mixer(sequence(2, 5, dim=7))
    with pytest.raises(ModelError, match="takes a boolean mask"):
        mixer(sequence(2, 5), padding(5))
    with pytest.raises(ModelError, match="takes a boolean mask"):
        mixer(sequence(5, 5), padding(5).double())
    if mixer.fixed_length:
        with pytest.raises(ModelError, match="at most max_length=32 tokens, not 33"):
            mixer(sequence(1, 33))
    else:
        assert mixer(sequence(1, 33)).shape == (1, 33, DIM)


@cases
def test_attention_weights_are_a_distribution_over_what_may_be_seen(case: Case) -> None:
    mixer, x, mask = case.build(), sequence(5, 6), padding(6)
    if type(mixer).attention_weights is Mixer.attention_weights:
        with pytest.raises(ModelError, match=f"{case.name} gives no attention weights"):
            mixer.attention_weights(x)
        return
    weights = mixer.attention_weights(x, mask)
    assert weights.shape[0] == 5
    assert weights.shape[2:] == (6, 6)
    allowed = mask[:, None, None, :] & (
        torch.ones(6, 6).tril().bool() if case.is_causal else torch.ones(6, 6).bool()
    )
    assert torch.all(weights.masked_select(~allowed) == 0)
    totals = allowed.any(dim=-1).double().expand(weights.shape[:3])
    torch.testing.assert_close(weights.sum(dim=-1), totals)

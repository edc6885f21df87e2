"""Check the contract of every mixer: a new mixer is tested as soon as it is registered.

Cases are made from the registry: each mixer, causal if it can be, with its default knobs and with
every relative position in one mixer; in the battery also with every knob changed in turn, and with
every relative position in every mixer that takes it. Exceptions are traits declared on the mixer,
never names here.
"""

import math
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from bakeoff.models import MIXERS, POSITIONS, Mixer, ModelError, build_mixer, mixer_class
from bakeoff.models.registry import relative_position
from bakeoff.suite.probes.tensor_bytes import growth_bytes
from tests import battery
from tests.models.small_models import sees

DIM = 8
MAX_LENGTH = 128
LENGTHS = (1, 2, 3, 11)
ODD_LENGTH = 71  # not a multiple of any chunk, block or window, and longer than each
RELATIVE = [name for name in POSITIONS if relative_position(name)]


@dataclass(frozen=True)
class Case:
    name: str
    is_causal: bool
    knob: str = ""
    value: Any = None
    position: str | None = None

    def __str__(self) -> str:
        form = "causal" if self.is_causal else "full"
        changed = f"-{self.knob}={self.value}" if self.knob else ""
        return f"{self.name}-{form}{changed}" + (f"-{self.position}" if self.position else "")

    def build(
        self, dtype: torch.dtype = torch.float64, max_length: int = MAX_LENGTH, seed: int = 0
    ) -> Mixer:
        torch.manual_seed(seed)
        knobs = {self.knob: self.value} if self.knob else {}
        if self.position:  # heads of one pair hide the angles of RoPE
            knobs = {"heads": 2} | knobs
        mixer = build_mixer(
            self.name,
            dim=DIM,
            max_length=max_length,
            is_causal=self.is_causal,
            position=self.position,
            **knobs,
        )
        return mixer.to(dtype).eval()

    def stack(self, depth: int) -> list[Mixer]:
        """Build the mixers of a model's blocks."""
        layers = [self.build(seed=layer) for layer in range(depth)]
        for layer, mixer in enumerate(layers):
            mixer.take_place(layer, layers[0])
        return layers


def alternatives(hint: Any, default: Any) -> list[Any]:
    """Return values to try for a knob, besides its default."""
    if get_origin(hint) is Literal:
        candidates = list(get_args(hint))
    elif get_origin(hint) in (Union, UnionType):
        return [value for option in get_args(hint) for value in alternatives(option, default)]
    else:
        numbers = [1, 2, 3, 5, 8, 16]
        candidates = {bool: [False, True], int: numbers, float: [0.5, 1.0, 2.0]}.get(hint, [None])
    return [value for value in candidates if value != default]


@cache
def changed_knobs(form: Case) -> list[Case]:
    """Return cases of each knob with up to three other valid values, or all if they are strings."""
    config = mixer_class(form.name).Config
    hints = get_type_hints(config)
    cases = []
    for field in fields(config):
        values = alternatives(hints[field.name], field.default)
        tried = [Case(form.name, form.is_causal, field.name, value) for value in values]
        accepted = [case for case in tried if is_built(case)]
        cases += [case for i, case in enumerate(accepted) if i < 3 or type(case.value) is str]
    return cases


def all_forms() -> list[Case]:
    forms = [Case(name, False) for name in MIXERS]
    return forms + [Case(name, True) for name in MIXERS if mixer_class(name).supports_causal]


def with_positions(form: Case) -> list[Case]:
    """Return one case for each relative position that the mixer takes."""
    if not mixer_class(form.name).supports_relative:
        return []
    cases = [Case(form.name, form.is_causal, position=name) for name in RELATIVE]
    return [case for case in cases if is_built(case)]


def forms_that_take_positions() -> list[Case]:
    """Return the forms of the first mixer that takes relative positions."""
    name = next(name for name in MIXERS if mixer_class(name).supports_relative)
    return [form for form in FORMS if form.name == name]


def main_form(name: str) -> Case:
    """Return the causal form of a mixer if it has one, and otherwise the full one."""
    return next(form for form in reversed(FORMS) if form.name == name)


def is_built(case: Case) -> bool:
    """Return True if the mixer can be built and can run on this CPU."""
    try:
        mixer = case.build()
    except ModelError:
        return False
    return not mixer.why_not_on(mixer.config, on_gpu=False, precision="float32", is_masked=True)


FORMS = all_forms()
MAIN_FORMS = [main_form(name) for name in MIXERS]
# A mixer takes tens of cases beside its forms; they are made only where the battery is asked for.
CHANGED = [case for form in FORMS for case in changed_knobs(form)] if battery.is_wanted else []
# By default positions stand in the first mixer that takes them.
FIRST_PLACED = [case for form in forms_that_take_positions() for case in with_positions(form)]
PLACED = FIRST_PLACED
if battery.is_wanted:
    PLACED = [case for form in FORMS for case in with_positions(form)]
CASES = FORMS + CHANGED + PLACED


def each(several: Iterable[Any]) -> list[Any]:
    """Return cases, or tuples that begin with one, with a marker on those of the battery."""
    default, marked = {*FORMS, *FIRST_PLACED}, []
    for one in several:
        values = one if isinstance(one, tuple) else (one,)
        marks = [] if values[0] in default else [pytest.mark.battery]
        marked.append(pytest.param(*values, id="-".join(map(str, values)), marks=marks))
    return marked


forms = pytest.mark.parametrize("case", FORMS, ids=str)
cases = pytest.mark.parametrize("case", each(CASES))
# These are for properties that a knob can hardly break without a difference from the reference.
forms_first = pytest.mark.parametrize("case", each(CASES if battery.is_wanted else FORMS))
# These are for properties that hardly differ between the two forms of a mixer.
mains_first = pytest.mark.parametrize("case", each(CASES if battery.is_wanted else MAIN_FORMS))
causal_cases = pytest.mark.parametrize("case", each(case for case in CASES if case.is_causal))
names = pytest.mark.parametrize("name", list(MIXERS))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def sequence(batch: int, length: int, dim: int = DIM, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, dim, generator=generator, dtype=torch.float64)


def padding(length: int) -> Tensor:
    """Return masks: whole, right-padded, left-padded, every second token, nothing but padding."""
    mask = torch.zeros(5, length, dtype=torch.bool)
    mask[0] = True
    mask[1, : (length + 1) // 2] = True
    mask[2, length // 2 :] = True
    mask[3, 1::2] = True
    return mask


def gradients(mixer: Mixer, output: Tensor, weights: Tensor, *inputs: Tensor) -> list[Tensor]:
    """Return gradients of a random projection of the output, by each input and each parameter."""
    wanted = [*inputs, *mixer.parameters()]
    if not wanted:  # a mixer without parameters
        return []
    found = torch.autograd.grad((output * weights).sum(), wanted, allow_unused=True)
    pairs = zip(found, wanted, strict=True)
    return [torch.zeros_like(w) if g is None else g for g, w in pairs]


def assert_same(fast: list[Tensor], slow: list[Tensor], tolerance: float = 1e-9) -> None:
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@names
def test_every_knob_has_another_value_that_can_be_tried(name: str) -> None:
    tried = {case.knob for form in FORMS if form.name == name for case in changed_knobs(form)}
    assert tried == {field.name for field in fields(mixer_class(name).Config)}


# A padded knob runs in the battery only; by default its padding is in the test of the mask mode.
WHOLE = each((case, "whole") for case in CASES)
PADDED = each((case, "padded") for case in (CASES if battery.is_wanted else MAIN_FORMS))


@pytest.mark.parametrize(("case", "padded"), WHOLE + PADDED)
def test_fast_form_equals_reference_forward_and_every_gradient(case: Case, padded: str) -> None:
    is_padded = padded == "padded"
    mixer = case.stack(3)[-1] if is_padded else case.build()  # higher layers may differ
    assert mixer.is_proven()
    lengths = lengths_of(is_padded) if case in FORMS else LENGTHS[-1:]
    if case.position == "shaw" and not is_padded:
        lengths = (*lengths, 40)  # beyond the distances that Shaw clips
    for length in lengths:
        assert_equals_reference(mixer, length, is_padded)


def lengths_of(is_padded: bool) -> tuple[int, ...]:
    """Return all lengths in the battery; by default short ones, and one where it is padded.

    By default the boundaries of chunks are met where a knob makes them short.
    """
    if battery.is_wanted:
        return (*LENGTHS, ODD_LENGTH)
    return LENGTHS[-1:] if is_padded else LENGTHS


@names
def test_a_knob_with_another_value_equals_the_reference(name: str) -> None:
    """Check one other value of each knob on a short sequence; the battery checks more."""
    changed = changed_knobs(main_form(name))
    for case in {case.knob: case for case in reversed(changed)}.values():
        assert_equals_reference(case.build(), 5, is_padded=False)


@pytest.mark.battery
@pytest.mark.parametrize("placed", PLACED, ids=str)
def test_every_knob_goes_with_every_position(placed: Case) -> None:
    """Check the combinations of knobs with the other parts of a mixer; some are refused."""
    changed = changed_knobs(Case(placed.name, placed.is_causal))
    pairs = [replace(case, position=placed.position) for case in changed]
    built = [pair for pair in pairs if is_built(pair)]
    assert len(built) >= len(pairs) / 2
    for pair in built:
        assert_equals_reference(pair.build(), 5, is_padded=False)


def assert_equals_reference(mixer: Mixer, length: int, is_padded: bool) -> None:
    mask = padding(length) if is_padded else None
    x = sequence(5 if is_padded else 2, length).requires_grad_()
    weights = sequence(*x.shape, seed=2)
    if mask is not None and mixer.mask_mode == "exact":
        weights = weights * mask.unsqueeze(-1)  # ignore outputs at padded positions
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
    for wrong, said in (
        ({"context_mask": padding(6)}, "no context_mask without a context"),
        ({"context": context[:2]}, "a context of the batch 5, not 2"),
        ({"context": context[..., :3]}, "not .5, 6, 3. .*context"),
        ({"context": context, "context_mask": padding(5)}, "takes a boolean mask .5, 6."),
    ):
        with pytest.raises(ModelError, match=said):
            mixer(x, **wrong)
    context.requires_grad_()
    # Each kind of padding is combined with another: real queries also read a fully padded context.
    mask, context_mask = padding(4).roll(1, dims=0), padding(6)
    weights = sequence(5, 4, seed=3) * mask.unsqueeze(-1)
    fast = mixer(x, mask, context, context_mask)
    slow = mixer.reference(x, mask, context, context_mask)
    assert_same([fast * weights], [slow * weights])
    assert_same(gradients(mixer, fast, weights, context), gradients(mixer, slow, weights, context))
    assert_same([mixer(x, None, context)], [mixer.reference(x, None, context)])
    poisoned = context.masked_fill(~context_mask.unsqueeze(-1), math.nan)
    assert torch.equal(mixer(x, mask, poisoned, context_mask), fast)


@forms_first
def test_a_prepared_context_serves_token_by_token(case: Case) -> None:
    """Check that a sequence whose context is all padding gets the output of zeros."""
    mixer, x, context = case.build(), sequence(5, 4), sequence(5, 6, seed=2)
    if case.is_causal or not mixer.supports_context:
        for refused in (mixer.prepare, lambda c: mixer.flops(4, 5, 6)):
            with pytest.raises(ModelError, match="takes no context"):
                refused(context)
        return
    for mask in (None, padding(6)):
        prepared = mixer.prepare(context, mask)
        assert all(len(part) == 5 for part in prepared)
        whole = mixer(x, None, context, mask)
        assert_same([mixer.attend(x, prepared)], [whole], tolerance=1e-12)
        steps = [mixer.attend(x_t.unsqueeze(1), prepared) for x_t in x.unbind(dim=1)]
        assert_same([torch.cat(steps, dim=1)], [whole], tolerance=1e-12)
        if mask is None:
            kept = {part.data_ptr(): part[0].numel() * 4 for part in prepared}
            assert mixer.context_bytes(6) == sum(kept.values())
    bias = getattr(getattr(mixer, "output", None), "bias", None)
    nothing = torch.zeros_like(whole[4]) if bias is None else bias.expand_as(whole[4])
    torch.testing.assert_close(whole[4], nothing)


@mains_first
def test_gradients_equal_finite_differences(case: Case) -> None:
    mixer, x = case.build(), sequence(1, 3).requires_grad_()
    for parameter in mixer.parameters():  # a ReLU has no gradient at 0, where biases start
        parameter.data += 0.01
    parameters = dict(mixer.named_parameters())

    def function(x: Tensor, *values: Tensor) -> Tensor:
        replaced = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(mixer, replaced, (x,))

    assert torch.autograd.gradcheck(function, (x, *parameters.values()), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@mains_first
def test_low_precision_is_as_good_as_the_references_own(case: Case, dtype: torch.dtype) -> None:
    """Compare with a reference from rounded parameters and inputs, to exclude their rounding."""
    low, x = case.build(dtype), sequence(1, 17).to(dtype)
    truth = case.build(dtype).double().reference(x.double())
    fast, slow = ((form(x) - truth).square().mean().sqrt() for form in (low, low.reference))
    assert low(x).dtype is dtype
    assert fast <= 2 * slow + torch.finfo(dtype).eps * truth.square().mean().sqrt()


@pytest.mark.parametrize("case", FORMS if battery.is_wanted else MAIN_FORMS, ids=str)
def test_low_precision_lasts_over_a_long_sequence(case: Case) -> None:
    """Check that sums and angles over a thousand tokens use more digits than bfloat16 has."""
    low, wide = case.build(torch.bfloat16, 1024), case.build(torch.bfloat16, 1024).double()
    errors = []
    for length in (16, 1024):
        x = sequence(1, length).bfloat16()
        truth = wide(x.double())
        errors.append((low(x) - truth).square().mean().sqrt() / truth.square().mean().sqrt())
    assert errors[1] < 0.05
    assert errors[1] < 3 * errors[0]


@forms_first
def test_a_token_sees_itself_and_no_later_one_where_causal(case: Case) -> None:
    """Check by gradients: the derivative by a later token is exactly 0."""
    seen = sees(case.build(), 24)
    assert not (case.is_causal and seen.triu(1).any())
    assert seen.diagonal()[2:].all(), "a mixer must see the token itself, sooner or later"


@causal_cases
def test_no_bit_of_a_causal_output_depends_on_the_future(case: Case) -> None:
    """Check what gradients do not show: a maximum, a sort or a hash."""
    if case.name == "lsh_attention":  # it hashes as many chunks as there are tokens
        return
    mixer, x, later = case.build(), sequence(2, 17), 1e4 * sequence(2, 8, seed=2)
    other = torch.cat([x[:, :9], later], dim=1)
    assert torch.equal(mixer(x)[:, :9], mixer(other)[:, :9])


def growth(formula: str, shorter: int, longer: int) -> float:
    """Return the growth of a cost formula from one length to another."""
    values = [
        eval(formula, {"log2": math.log2}, {"n": n, "d": DIM, "k": 3, "r": 3})
        for n in (shorter, longer)
    ]
    return values[1] / values[0]


@forms
def test_the_cost_row_grows_as_flops_do(case: Case) -> None:
    """Check the growth in n, since the formulas omit constant factors."""
    mixer, cost = case.build(), mixer_class(case.name).cost
    n, m = 2**20, 2**24
    if mixer.flops(n):  # otherwise all its work is elementwise, which counts as zero
        assert mixer.flops(m) / mixer.flops(n) == pytest.approx(growth(cost.time, n, m), rel=0.02)


@forms_first
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
    for layer in (mixer, case.stack(3)[-1]):
        state, outputs = layer.initial_state(2), []
        for t in range(9):
            output, state = layer.step(x[:, t], state)
            outputs.append(output)
            held = sum(part.numel() for part in state) * 4 // 2
            assert layer.state_bytes(t + 1) == held
        assert_same([torch.stack(outputs, dim=1)], [layer(x)], tolerance=1e-12)


def in_training(layers: list[Mixer], x: Tensor, calls: int) -> Tensor:
    """Return the last of several training outputs of a stack, so that periodic redraws occur."""
    for mixer in layers:
        mixer.train()
    torch.manual_seed(3)
    for _ in range(calls):
        output = x
        for mixer in layers:
            output = mixer(output)
    return output


@mains_first
def test_is_deterministic_and_survives_a_state_dict(case: Case) -> None:
    mixer, x = case.build(), sequence(2, 7)
    if not mixer.is_stochastic:
        assert torch.equal(mixer(x), mixer(x))
    assert torch.equal(in_training([mixer], x, 3), in_training([case.build()], x, 3))
    copy = case.build(seed=1)
    copy.load_state_dict(mixer.state_dict())
    assert torch.equal(in_training([copy], x, 3), in_training([mixer], x, 3))


@mains_first
def test_huge_inputs_and_an_empty_batch_give_finite_numbers(case: Case) -> None:
    """Check scores of 1e4 and more: a softmax becomes one-hot, and an exponential overflows."""
    mixer, mask = case.build(torch.float32), padding(9)
    x = (1e2 * sequence(5, 9)).float().requires_grad_()
    output = mixer(x, mask)
    assert output.isfinite().all()
    assert all(g.isfinite().all() for g in gradients(mixer, output, torch.ones_like(x), x))
    assert mixer(1e4 * x).isfinite().all()
    assert mixer(x[:0]).shape == (0, 9, DIM)


def fft_flops(shape: tuple[int, ...], dims: list[int], *_: Any, **__: Any) -> float:
    """Count 5 n log2 n for each transform of n, real or not, since torch's counter has no FFT."""
    return sum(5 * math.prod(shape) * math.log2(shape[dim]) for dim in dims)


def attention_flops(*shapes: Any, **_: Any) -> int:
    """Count two products, as torch counts the kernels of a GPU."""
    return sdpa_flop_count(*shapes[:3])


def solve_flops(matrix: tuple[int, ...], columns: tuple[int, ...], *_: Any, **__: Any) -> int:
    """Count n multiply-adds for each of n rows and each column, halved for the triangle."""
    return matrix[-1] * math.prod(columns)


def counted_flops(mixer: Mixer, x: Tensor) -> float:
    """Count FLOPs by torch's counter.

    It counts 0 for fused attention on the CPU and for a triangular solve, so their formulas are
    given; and 0 for oneDNN's LSTM, which float64 does not use.
    """
    assert x.dtype is torch.float64
    transforms = (torch.ops.aten._fft_c2c, torch.ops.aten._fft_r2c)
    fused = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops}
    solves = {torch.ops.aten.linalg_solve_triangular: solve_flops}
    counter = FlopCounterMode(
        display=False, custom_mapping=dict.fromkeys(transforms, fft_flops) | fused | solves
    )
    with counter, torch.no_grad():
        mixer(x)
    return counter.get_total_flops()


SIZES_OF_FLOPS = [(case, 3, 21) for case in CASES]
OTHER_SIZES = FORMS if battery.is_wanted else MAIN_FORMS
SIZES_OF_FLOPS += [(case, 1, length) for case in OTHER_SIZES for length in (1, 16)]


@pytest.mark.parametrize(("case", "batch", "length"), each(SIZES_OF_FLOPS))
def test_flops_formula_equals_the_counter(case: Case, batch: int, length: int) -> None:
    mixer = case.build()
    assert mixer.has_flops_formula()
    flops = mixer.flops(length, batch)
    assert isinstance(flops, float)
    assert flops >= 0
    assert flops == pytest.approx(counted_flops(mixer, sequence(batch, length)), rel=1e-12)


@forms_first
def test_flops_over_a_context_equal_the_counter(case: Case) -> None:
    mixer = case.build()
    if mixer.supports_context and not case.is_causal:
        x, context = sequence(3, 7), sequence(3, 10, seed=2)
        counted = counted_flops(lambda x: mixer(x, context=context), x)
        assert mixer.flops(7, 3, context_length=10) == pytest.approx(counted, rel=1e-12)


class Alive(TorchDispatchMode):
    """A recorder of the tensors alive at the peak, each with the operation that made it."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[weakref.ref[torch.UntypedStorage], str]] = []
        self.peak, self.at_peak = 0, [""]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and not func.is_view:
                storage = tensor.untyped_storage()
                made = f"{storage.nbytes():>12,} bytes  {list(tensor.shape)}  {func}"
                self.made.append((weakref.ref(storage), made))
        self.made = [(ref, made) for ref, made in self.made if ref() is not None]
        total = sum(storage.nbytes() for ref, _ in self.made if (storage := ref()) is not None)
        if total > self.peak:
            self.peak, self.at_peak = total, [made for _, made in self.made]
        return result


def alive_at_peak(mixer: Mixer, x: Tensor) -> list[str]:
    """List the bytes, shape and operation of each tensor; the scratch of kernels is not seen."""
    with torch.no_grad(), Alive() as alive:
        mixer(x)
    return alive.at_peak


def test_the_tensors_alive_at_the_peak_are_listed() -> None:
    """Check the list that helps to correct a wrong formula of bytes."""
    torch.manual_seed(0)
    mixer = build_mixer("attention", dim=DIM, heads=1, max_length=64, kernel="materialised")
    lines = alive_at_peak(mixer, sequence(1, 64).float())
    scores = [line for line in lines if line.split()[0] == f"{4 * 64**2:,}"]
    assert 1 <= len(scores) <= 3, lines  # some of scores, weights and mask, but not all


SIZES_OF_BYTES = [(case, 1, 160) for case in (CASES if battery.is_wanted else FORMS)]
SIZES_OF_BYTES += [(case, 2, 320) for case in OTHER_SIZES]


@pytest.mark.parametrize(("case", "batch", "length"), each(SIZES_OF_BYTES))
def test_bytes_formula_equals_what_is_held(case: Case, batch: int, length: int) -> None:
    """Check equality or a refusal: relative positions, unequal widths of keys, kernel="math"."""
    dim = 64  # so that padding to whole vectors and a library's constants weigh little
    knobs = {case.knob: case.value} if case.knob else {}
    mixer = build_mixer(
        case.name,
        dim=dim,
        max_length=length,
        is_causal=case.is_causal,
        position=case.position,
        **knobs,
    )
    if not mixer.has_bytes_formula():
        with pytest.raises(ModelError, match=f"{case.name} gives no formula for"):
            mixer.forward_bytes(length, batch)
        return
    if case.position or case.knob in ("key_dim", "value_dim") or case.value == "math":
        with pytest.raises(ModelError, match=f"{case.name} gives no formula for"):
            mixer.forward_bytes(length, batch)
        return
    x = sequence(batch, length, dim).float()
    with torch.no_grad():
        held = growth_bytes(lambda: mixer(x), "cpu")
    expected = mixer.forward_bytes(length, batch)
    if expected != pytest.approx(held, rel=0.05):
        alive = "\n".join(alive_at_peak(mixer, x))
        pytest.fail(f"the formula gives {expected:,.0f} bytes, held are {held:,}:\n{alive}")


@forms_first
def test_bytes_over_a_context_equal_what_is_held(case: Case) -> None:
    """Check that the formula over a context equals the allocated bytes, unless it refuses."""
    mixer = build_mixer(
        case.name,
        dim=64,
        max_length=320,
        is_causal=case.is_causal,
        **({case.knob: case.value} if case.knob else {}),
    )
    x, context = sequence(1, 160, 64).float(), sequence(1, 320, 64, seed=2).float()
    with suppress(ModelError):
        expected = mixer.forward_bytes(160, 1, context_length=320)
        with torch.no_grad():
            held = growth_bytes(lambda: mixer(x, context=context), "cpu")
        assert expected == pytest.approx(held, rel=0.05)


@cache
def moved_outputs(case: Case) -> tuple[Tensor, Tensor]:
    """Return outputs of a stack with all parameters moved, so that neutral initial values matter.

    The outputs are those in training, with the gradient by the inputs, and those in evaluation.
    """
    layers = case.stack(4)
    for parameter in {p for mixer in layers for p in mixer.parameters()}:
        parameter.data += 0.1
    x = sequence(2, ODD_LENGTH).requires_grad_()
    trained = in_training(layers, x, calls=4)  # more than any interval in the cases
    (gradient,) = torch.autograd.grad((trained * sequence(*x.shape, seed=2)).sum(), x)
    with torch.no_grad():
        evaluated = torch.nn.Sequential(*layers).eval()(x)
    return torch.stack([trained.detach(), gradient]), evaluated


@pytest.mark.battery
@pytest.mark.parametrize("case", CHANGED, ids=str)
def test_a_changed_knob_changes_what_it_says(case: Case) -> None:
    """Check that each knob changes the output, or declares that it does not.

    A knob that acts only in evaluation must change the output there.
    """
    form = Case(case.name, case.is_causal)
    config = mixer_class(case.name).Config
    field = {field.name: field for field in fields(config)}[case.knob]
    pairs = zip(moved_outputs(form), moved_outputs(case), strict=True)
    is_same_in_training, is_same_read = (
        torch.allclose(*pair, rtol=1e-6, atol=1e-6) for pair in pairs
    )
    if field.metadata.get("reading_only", False):
        assert is_same_in_training
    is_same = is_same_in_training and is_same_read
    stands_for_default = field.default is None and is_same and is_like_none(case)
    assert is_same == (field.metadata.get("cost_only", False) or stands_for_default)


def is_like_none(case: Case) -> bool:
    """Return True if None, the default, stands for this value, and not for every value."""
    others = [each for form in FORMS if form.name == case.name for each in changed_knobs(form)]
    others = [each for each in others if each.knob == case.knob]
    shapes = {each: [t.shape for t in tensors_of(each.build())] for each in others}
    return any(shape != shapes[case] for shape in shapes.values())


def tensors_of(mixer: Mixer) -> list[Tensor]:
    return [*mixer.parameters(), *mixer.buffers()]


@pytest.mark.parametrize("case", PLACED, ids=str)
def test_a_relative_position_tells_orders_apart(case: Case) -> None:
    placed, x = case.build(), sequence(2, 17)
    shuffle = torch.randperm(17, generator=torch.Generator().manual_seed(0))
    assert not torch.allclose(placed(x)[:, shuffle], placed(x[:, shuffle]), rtol=1e-6, atol=1e-6)


@names
def test_a_relative_position_is_refused_with_the_reason(name: str) -> None:
    mixer = mixer_class(name)
    if mixer.supports_relative:
        return
    with pytest.raises(ModelError) as refused:
        build_mixer(name, position="rope")
    why = mixer.why_not_relative
    assert str(refused.value) == f"{name} takes no relative position (rope): {why}"


@names
def test_is_position_aware_is_true_to_its_word(name: str) -> None:
    mixer, x = Case(name, False).build(), sequence(2, 40)  # longer than any default window
    shuffle = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    is_equivariant = torch.allclose(mixer(x)[:, shuffle], mixer(x[:, shuffle]), atol=1e-9)
    assert mixer.is_position_aware != is_equivariant, (
        f"{name} says is_position_aware={mixer.is_position_aware}, but shuffled tokens give "
        f"{'shuffled' if is_equivariant else 'other'} outputs"
    )


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
    takes = rf"takes \[batch, time, {DIM}\] with a token at least, not"
    with pytest.raises(ModelError, match=rf"{takes} \[2, 5, 7\]"):
        mixer(sequence(2, 5, dim=7))
    with pytest.raises(ModelError, match=rf"{takes} \[2, 0, {DIM}\]"):
        mixer(sequence(2, 0))
    with pytest.raises(ModelError, match=r"takes real numbers, not torch.int64"):
        mixer(sequence(2, 5).long())
    with pytest.raises(ModelError, match="takes a boolean mask"):
        mixer(sequence(2, 5), padding(5))
    with pytest.raises(ModelError, match="takes a boolean mask"):
        mixer(sequence(5, 5), padding(5).double())
    if mixer.fixed_length:
        with pytest.raises(ModelError, match="at most max_length=128 tokens, not 129"):
            mixer(sequence(1, 129))
    else:
        assert mixer(sequence(1, 129)).shape == (1, 129, DIM)


@forms_first
def test_attention_weights_are_a_distribution_over_what_may_be_seen(case: Case) -> None:
    mixer, x, mask = case.build(), sequence(5, 6), padding(6)
    if type(mixer).attention_weights is Mixer.attention_weights:
        with pytest.raises(ModelError, match=f"{case.name} gives no attention weights"):
            mixer.attention_weights(x)
        return
    weights = mixer.attention_weights(x, mask)
    assert weights.shape[0] == 5
    assert weights.shape[2:] == (6, 6)
    reach = torch.ones(6, 6).tril() > 0 if case.is_causal else torch.ones(6, 6) > 0
    allowed = mask[:, None, None, :] & reach
    assert torch.all(weights.masked_select(~allowed) == 0)
    found, totals = weights.sum(dim=-1), allowed.any(dim=-1).double().expand(weights.shape[:3])
    if case.name == "prefix_attention":  # a padded query of it may attend to less
        is_nothing = ~mask[:, None, :].expand(found.shape) & (found == 0)
        totals = totals.masked_fill(is_nothing, 0.0)
    torch.testing.assert_close(found, totals)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_gpu_gives_what_the_cpu_gives() -> None:
    """Compare every form, padded and not, with gradients, in float64 so that kernels may differ."""
    for case in FORMS + [case for form in FORMS for case in with_positions(form)]:
        mixer, x, mask = case.build(), sequence(5, 17).requires_grad_(), padding(17)
        for part in mixer.modules():
            if isinstance(part, nn.RNNBase):  # cuDNN's have no backward pass in evaluation mode
                part.train()
        weights = sequence(5, 17, seed=2) * mask.unsqueeze(-1)
        for real in (None, mask):
            here = mixer(x, real)
            found = gradients(mixer, here, weights, x)
            there = mixer.cuda()(x.cuda(), None if real is None else real.cuda())
            on_gpu = gradients(mixer, there, weights.cuda(), x)
            assert_same([there.cpu() * weights], [here * weights])
            assert_same([gradient.cpu() for gradient in on_gpu], found)
            mixer.cpu()

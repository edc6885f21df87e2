"""Check properties of every registered architecture; a new one is covered without a change.

A test queries the class for its abilities, and names no architecture. Each is a function of a name,
so that the last tests can check which architectures it accepts and which it rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models import (
    ARCHITECTURES,
    Architecture,
    ModelSpec,
    PartSeeds,
    architecture_class,
    generate,
)
from bakeoff.models.decoding import Decoder, beam_search
from bakeoff.models.interface import CONTEXT, INPUTS
from tests.models.small_models import (
    BATCH,
    SYMBOLS,
    alternatives,
    build,
    every_setting,
    inputs,
    outputs,
    sources,
    spec,
)

TOKENS = 5  # the number of tokens written or read one by one
END, MOST, SOURCE_TOKENS = 2, 4, 4  # for exhaustive search; for the second source
OF_EXCITATION = (
    "ratio",
    "has_excitation_bias",
    "se_squeeze",
    "excitation",
    "channel_attention_place",
    "channel_attention_stages",
)
OF_CNN = "blocks", "stem", "encoder_width"  # besides words
OF_CBAM = "cbam_squeeze", "cbam_order", "cbam_window"
OF_MAP_ATTENTION = "attention_stages", "heads", "has_relative_logits"
KNOBS_THAT_SHOW: dict[str, dict[str, Any]] = {
    "patch": {"input_kind": "image"},
    **{knob: {"encoder": "cnn"} for knob in OF_CNN},
    "residual": {"norm_placement": "pre"},  # post-norm cancels scales
    "is_source_reversed": {"uniform_range": 1.0},  # the default passes on almost nothing
    "window": {"reach": "local_p"},
    "position_mode": {"has_absolute_position": True},
    "position_std": {"has_absolute_position": True},
    "relative_bias": {"norm_placement": "pre"},  # blocks that start as the identity hide it
    "has_input_feeding": {"form": "luong"},
    **{knob: {"channel_attention": "se"} for knob in OF_EXCITATION},
    **{knob: {"channel_attention": "cbam"} for knob in OF_CBAM},
    **{knob: {"attention": "botnet"} for knob in OF_MAP_ATTENTION},
    "attention_share": {"attention": "augmented"},
    "attention_window": {"attention": "stand_alone", "attention_stages": "1"},
    "stochastic_depth_rule": {"stochastic_depth": 0.5, "is_shared": False},
    "kl_weight": {"quantiser": "gumbel"},
    "final_temperature": {"quantiser": "gumbel"},
    "anneal_steps": {"quantiser": "gumbel"},
    "pooling": {"class_depth": 0},
    "has_residual": {"layer_scale": None},
    "halvings": {"dims": "128-64-64"},  # each earlier convolution has half as many channels
    "has_attention_bias": {"halvings": 4},  # with few tokens, one moves the mean
}


NEARLY_ALIKE = {"gelu_tanh"}  # differs by less than a thousandth; see test_sublayers.py
# Knobs of the pre-training, for models with parts that they do not train themselves.
OF_THE_START = {"commitment", "kl_weight", "final_temperature", "anneal_steps"}


def padded_sources(model_spec: ModelSpec) -> dict[str, Tensor]:
    """Return sources of which the second is short, with their masks; images are whole."""
    found = {
        name: each.double() if each.is_floating_point() else each
        for name, each in sources(model_spec).items()
    }
    for name, each in model_spec.others.items():
        if each.kind != "image":
            mask = torch.arange(each.length) < torch.tensor(
                [[each.length], [SOURCE_TOKENS], [each.length - 1]]
            )
            found[f"{name}_mask"] = mask
    return found


def a_beam_of_one_is_greedy(name: str) -> None:
    """Compare both searches; `generate` takes the greedy one for a beam of one."""
    model, start = build(spec(name)).double().eval(), torch.ones(BATCH, 1, dtype=torch.long)
    given, decoder = padded_sources(model.spec), Decoder(max_length=TOKENS)
    greedy = generate(model, given, decoder, start=start, end=0)
    with torch.no_grad():
        encoded = (model.encode(**given),) if given else ()
        logits, state = model.step(start[:, 0], model.initial_state(BATCH, *encoded))
        limits = torch.full((BATCH,), TOKENS)
        beam = beam_search(model, logits, state, decoder, end=0, limits=limits)
    assert beam.rows() == greedy.rows()
    torch.testing.assert_close(beam.scores, greedy.scores)
    assert len({tuple(row) for row in greedy.rows()} | {(SYMBOLS,)}) > 1


def steps_are_the_teacher_forced_form(name: str) -> None:
    """Compare at every value of every knob, with padded sources."""
    for model_spec in every_setting(name):
        model, read = build(model_spec).double().eval(), inputs(model_spec, length=TOKENS)
        given, found = padded_sources(model_spec), []
        with torch.no_grad():
            encoded = (model.encode(**given),) if given else ()
            state = model.initial_state(BATCH, *encoded)
            for tokens in read.unbind(dim=1):
                logits, state = model.step(tokens, state)
                found.append(logits)
            together = model(read, **given)
        torch.testing.assert_close(torch.stack(found, dim=1), together)


def sharpened(model_spec: ModelSpec) -> Architecture:
    """Build a model with parameters so large that outputs depend on all inputs."""
    model, drawn = build(model_spec).double().eval(), torch.Generator().manual_seed(4)
    for parameter in model.parameters():
        parameter.data += 0.4 * torch.randn(parameter.shape, generator=drawn).double()
    return model


def a_beam_of_all_hypotheses_is_exhaustive_search(name: str) -> None:
    """Compare on three symbols, with scores from the teacher-forced form."""
    whole = spec(name)
    others = {
        key: replace(each, size=3) if each.kind == "tokens" else each
        for key, each in whole.others.items()
    }
    model = sharpened(replace(whole, input_size=3, output_size=3, others=others))
    given, start = padded_sources(model.spec), torch.ones(BATCH, 1, dtype=torch.long)
    written = [each for n in range(MOST) for each in product(range(END), repeat=n)]
    totals = []
    for tokens in written:
        read = torch.tensor([[1, *tokens, END]]).expand(BATCH, -1)
        with torch.no_grad():
            steps = model(read[:, :-1], **given).log_softmax(dim=-1)
        totals.append(steps.gather(2, read[:, 1:, None]).sum(dim=(1, 2)))
    lengths = torch.tensor([[len(tokens) + 1] for tokens in written])
    for penalty in (0.6, 4.0):  # the second favours long outputs, whose states have been reordered
        decoder = Decoder(beam=2 ** (MOST + 1), max_length=MOST, length_penalty=penalty)
        found = generate(model, given, decoder, start=start, end=END)
        best = (torch.stack(totals) / ((5 + lengths) / 6) ** penalty).max(dim=0)
        assert [tuple(row) for row in found.rows()] == [written[i] for i in best.indices]
        torch.testing.assert_close(found.scores, best.values)


def padding_of_a_source_is_never_read(name: str) -> None:
    """Check that neither the content nor the amount of padding matters, for every knob's values."""
    for model_spec in every_setting(name):
        model, read = build(model_spec).double().eval(), inputs(model_spec, length=TOKENS)
        given = padded_sources(model_spec)
        source, mask = given[CONTEXT], given[f"{CONTEXT}_mask"]
        padding = ~mask if source.ndim == 2 else ~mask.unsqueeze(-1)
        other = torch.where(padding, (source + 1) % SYMBOLS, source)
        with torch.no_grad():
            found = model(read, **given)
            assert torch.equal(model(read, **{**given, CONTEXT: other}), found)
            alone = model(read[1:2], context=source[1:2, :SOURCE_TOKENS])
        torch.testing.assert_close(found[1:2], alone)


def all_of_a_source_is_read(name: str) -> None:
    """Check that each real token changes the logits, even next to padding."""
    model = sharpened(spec(name))
    read, given = inputs(model.spec, length=TOKENS), padded_sources(model.spec)
    with torch.no_grad():
        found = model(read, **given)
        for place in range(SOURCE_TOKENS):
            other = given[CONTEXT].clone()
            other[1, place] = (other[1, place] + 1) % SYMBOLS
            moved = (model(read, **{**given, CONTEXT: other}) - found).abs().amax(dim=(1, 2))
            assert moved[1] > 1e-6, f"token {place} of {SOURCE_TOKENS} is not read"
            assert moved[[0, 2]].max() == 0


def each_step_has_its_own_weights(name: str) -> None:
    """Check weights over the real source, which tokens that are read later do not change."""
    model = build(spec(name)).double().eval()
    read, given = inputs(model.spec, length=TOKENS), padded_sources(model.spec)
    with torch.no_grad():
        weights = model.attention_weights(read, **given)
        first = model.attention_weights(read[:, :2], **given)
    grid, longest = model.source_grid(), model.spec.others[CONTEXT].length
    num_places = longest if grid is None else grid[0] * grid[1]
    real = given.get("context_mask", torch.ones(BATCH, num_places).bool()).unsqueeze(1)
    real = real.expand_as(weights)
    assert weights.shape == (BATCH, TOKENS, num_places)
    assert (weights >= 0).all()
    assert not weights[~real].any()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(BATCH, TOKENS).double())
    torch.testing.assert_close(first, weights[:, :2])


def flops_are_counted(name: str) -> None:
    """Compare the formula with torch's counter, within 1 %, at every value of every knob."""
    for setting in every_setting(name):
        model_spec = replace(setting, depth=min(1, setting.depth))  # all blocks cost the same
        model, counter = build(model_spec).eval(), FlopCounterMode(display=False)
        with sdpa_kernel(SDPBackend.MATH), counter, torch.no_grad():
            outputs(model.double())  # the counter misses oneDNN's float32 LSTM
        context = model_spec.others.get(CONTEXT)
        lengths = [] if context is None else [context.length]
        formula: float = model.flops(model_spec.length, BATCH, *lengths)
        assert formula == pytest.approx(counter.get_total_flops(), rel=0.01), model_spec.settings


def every_knob_has_an_effect(name: str) -> None:
    """Check that each knob changes the model; a common bug is a knob without an effect."""
    of_the_start = OF_THE_START if architecture_class(name).starts_from else set()
    for knob in vars(architecture_class(name).Config()).keys() - of_the_start:
        # A deviation of 0.02 makes the outputs of a narrow model's blocks almost zero.
        drawn = {} if knob == "initialisation" else {"initialisation": "scaled_normal"}
        shown_by = {**drawn, **KNOBS_THAT_SHOW.get(knob, {})}
        given = {k: v for k, v in shown_by.items() if is_knob(name, k) or is_image(name, k)}
        tried = alternatives(name, knob, given)
        assert tried, f"{knob} has no other value"
        for value in tried:
            if value in NEARLY_ALIKE:
                continue
            models = [build(spec(name, **given, **each)) for each in ({}, {knob: value})]
            is_same = are_alike(models) and are_alike([after_a_step(each) for each in models])
            assert not is_same, f"{knob}={value!r} has no effect"


def are_alike(models: list[Architecture]) -> bool:
    """Compare two models by their outputs."""
    ours, theirs = map(outputs, models)
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def after_a_step(model: Architecture) -> Architecture:
    """Return the model after a step of gradient descent, since some knobs act only in training."""
    outputs(model).square().mean().backward()
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    return model


def is_image(name: str, key: str) -> bool:
    """Return True if the key sets the first input to an image."""
    return key == "input_kind" and "image" in architecture_class(name).reads[INPUTS]


def is_knob(name: str, knob: str) -> bool:
    return knob in vars(architecture_class(name).Config())


Law = Callable[[str], None]
OF_ALL: tuple[Law, ...] = (flops_are_counted, every_knob_has_an_effect)
OF_WRITERS: tuple[Law, ...] = (
    a_beam_of_one_is_greedy,
    steps_are_the_teacher_forced_form,
    a_beam_of_all_hypotheses_is_exhaustive_search,
)
OF_WRITERS_ABOUT_A_SOURCE: tuple[Law, ...] = (
    padding_of_a_source_is_never_read,
    all_of_a_source_is_read,
)


def laws_of(name: str) -> tuple[Law, ...]:
    kind = architecture_class(name)
    has_source = kind.can_write() and is_padded_source(kind)
    found = OF_ALL + (OF_WRITERS if kind.can_write() else ())
    found += OF_WRITERS_ABOUT_A_SOURCE if has_source else ()
    if kind.attention_weights is not Architecture.attention_weights:
        found += (each_step_has_its_own_weights,)
    return found


def is_padded_source(kind: type[Architecture]) -> bool:
    """Return True if it reads a source that may be padded; an image may not."""
    return CONTEXT in kind.reads and kind.reads[CONTEXT][0] != "image"


def cases() -> Iterator[Any]:
    """Yield each architecture with each of its laws; knobs are tried in one of them by default."""
    first = next(iter(ARCHITECTURES))
    for name in ARCHITECTURES:
        for law in laws_of(name):
            is_long = law is every_knob_has_an_effect and name != first
            marks = [pytest.mark.battery] if is_long else []
            yield pytest.param(name, law, id=f"{name}-{law.__name__}", marks=marks)


@pytest.mark.parametrize(("name", "law"), list(cases()))
def test_laws(name: str, law: Law) -> None:
    law(name)


# A user's architecture: no stack, no mixer, a source of vectors.


@dataclass(frozen=True)
class Read:
    """The state of the toy model below."""

    total: Tensor
    source: Tensor


class Toy(Architecture):
    """A model whose logits come from the sum of all tokens so far and the mean of the source."""

    reads: ClassVar[Any] = {"inputs": ("tokens",), "context": ("vectors",)}
    answers = ("sequence",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """The single knob `width`, the width of the hidden layer."""

        width: int = 4

    def build(self, seeds: PartSeeds) -> None:
        width = self.config.width
        with seeds.part("all"):
            self.table = nn.Embedding(self.spec.input_size, width)
            self.source = nn.Linear(self.spec.others["context"].size, width)
            self.head = nn.Linear(width, self.spec.output_size)

    def encode(self, context: Tensor, context_mask: Tensor | None = None) -> Tensor:
        real = torch.ones(context.shape[:2]) if context_mask is None else context_mask
        weights = real.unsqueeze(-1).to(self.head.weight)
        context = context.to(self.head.weight)
        mean: Tensor = (self.source(context) * weights).sum(dim=1) / weights.sum(dim=1)
        return mean

    def forward(self, inputs: Tensor, **context: Tensor) -> Tensor:
        logits: Tensor = self.head(
            self.table(inputs).cumsum(dim=1) + self.encode(**context).unsqueeze(1)
        )
        return logits

    def initial_state(self, batch: int, encoded: Tensor) -> Read:
        return Read(torch.zeros_like(encoded), encoded)

    def step(self, tokens: Tensor, state: Read) -> tuple[Tensor, Read]:
        total = state.total + self.table(tokens)
        return self.head(total + state.source), Read(total, state.source)

    def flops(self, length: int, batch: int = 1, context_length: int = 0) -> float:
        source = context_length * self.source.weight.numel()
        return 2.0 * batch * (source + length * self.head.weight.numel())


class Idle(Toy):
    """A model with a knob that has no effect."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Toy.Config):
        """The knob `unread`, which has no effect."""

        unread: bool = False


class Uncounted(Toy):
    """A model whose FLOP formula omits the source."""

    def flops(self, length: int, batch: int = 1, context_length: int = 0) -> float:
        return super().flops(length, batch)


class ReadingAll(Toy):
    """A model that reads padding too."""

    def encode(self, context: Tensor, context_mask: Tensor | None = None) -> Tensor:
        return super().encode(context)


class Blind(Toy):
    """A model that ignores the last real token of a source."""

    def encode(self, context: Tensor, context_mask: Tensor | None = None) -> Tensor:
        assert context_mask is not None
        return super().encode(context, context_mask & context_mask.roll(-1, dims=1))


class Forgetful(Toy):
    """A model whose steps forget what they have read."""

    def step(self, tokens: Tensor, state: Read) -> tuple[Tensor, Read]:
        logits, _ = super().step(tokens, state)
        return logits, state


def register(monkeypatch: pytest.MonkeyPatch, kind: type[Architecture]) -> str:
    name = f"a_{kind.__qualname__}"
    monkeypatch.setitem(ARCHITECTURES, name, f"{kind.__module__}:{kind.__qualname__}")
    return name


def test_what_is_added_to_the_table_meets_all_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    name = register(monkeypatch, Toy)
    assert laws_of(name) == OF_ALL + OF_WRITERS + OF_WRITERS_ABOUT_A_SOURCE
    for law in laws_of(name):
        law(name)


@pytest.mark.parametrize(
    ("kind", "law", "said"),
    [
        (Idle, every_knob_has_an_effect, "unread=True has no effect"),
        (Uncounted, flops_are_counted, "approx|=="),
        (Forgetful, steps_are_the_teacher_forced_form, "not close"),
        (Forgetful, a_beam_of_all_hypotheses_is_exhaustive_search, "=="),
        (ReadingAll, padding_of_a_source_is_never_read, "equal"),
        (Blind, all_of_a_source_is_read, "token 3 of 4 is not read"),
    ],
)
def test_what_breaks_a_law_is_found(
    kind: type[Architecture], law: Law, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError, match=said):
        law(register(monkeypatch, kind))

"""Time the next token of a model that writes, and count the bytes of what it keeps for it.

That is how it is used: it writes its own next input, so tokens come one by one, and what a token
costs depends on how the model remembers the ones before. At ``length=L`` the model has read L - 1
tokens of each sequence, and reads the last that it has a place for, from one and the same state
again and again. A source that it writes about is as long as the task's may be, and was read before.

``batch=B`` decodes B sequences at once, ``beam=K`` keeps K hypotheses of each; left out, both are
1. With a beam a step reads a token of each hypothesis, looks for the best continuations and puts
the states in their order; without one it ends with the logits. A rate counts the tokens that
sequences become longer by: one of each in a step. The state is what there is after L tokens, of all
hypotheses of all sequences, each tensor counted once. At bf16 each step runs under autocast, as a
training does: parameters stay in float32, and are cast in every step.

All variants take turns in one process; see `suite.timing`.

On a GPU the peak of copies is measured first, and its share that a step uses is given: the bytes
that a step must read at least, of all parameters and of the state, over its seconds and over the
bytes a second of a copy, which counts what it reads and what it writes. What a step writes is
little and not counted. There is none where a source was read before: a step reads a part of the
parameters then.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from models import (
    Decoder,
    Input,
    Mixer,
    ModelError,
    ModelSpec,
    architecture_class,
    build_shapes,
    mixer_class,
)
from models.architectures.mixer_alone import CausalMixerAlone
from models.decoding import Beams, map_state, reordered, tensors_of
from models.interface import INPUTS
from suite.probes.probe import Probe, Said, at_length, measurement, rate_of, share_of
from suite.schema import Measurement, Parallel, Status, Trial, metric_spec
from suite.tasks.registry import task_class
from suite.timing.clock import Clock, clock_of
from suite.timing.comparison import TimingComparison
from suite.timing.passes import Missing, Pass, built, random_input
from suite.timing.peaks import are_wanted, peaks
from suite.training.recipes import autocast_of

METRIC = "decode_token_seconds"
_RATE = metric_spec("decode_tokens_per_second")
_SHARE = metric_spec("decode_share_of_copy_peak")
_STATE = metric_spec("decode_state_bytes")


class Decode(Probe):
    """Medians of interleaved rounds in one process, with their intervals."""

    name = "decode"
    version = 2
    grain = "comparison"
    is_at_length = True
    depends_on = frozenset({"decoding", "precision"})
    specs = (metric_spec(METRIC), _RATE, _STATE)
    why_no_workers = "decode times one process, without DeepSpeed"

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """It decodes with what reads from left to right, step by step, as Python reaches it."""
        if reason := architecture_class(model.architecture).why_silent(model):
            return reason
        if model.runtime != "eager":
            return f"decoding runs eagerly, not by runtime={model.runtime!r}"
        return super().why_not(model, parallel)

    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """All subjects, with the controls beside the first; once for each batch and beam."""
        inputs = task_class(trial.task).interface(trial.length).inputs
        clock = clock_of(device)
        copies = 0.0
        if are_wanted(device) and len(inputs) == 1:
            found = peaks(clock, device, trial.precision)
            yield from found.rows(at_length(trial.length))
            copies = found.copy
        for batch, beam in ((1, 1), *trial.decoding):
            yield from _measured(
                trial,
                device,
                clock,
                copies,
                Decoding(inputs, batch, beam, trial.seed, trial.precision),
            )
        yield from clock.conditions()


class Decoding(NamedTuple):
    """What is decoded.

    Attributes:
        inputs: By name; as many tokens of the first are read as it says.
        batch: Sequences at once.
        beam: Hypotheses of each.
        seed: Draws tokens and sources.
        precision: Of a recipe.
    """

    inputs: Mapping[str, Input]
    batch: int = 1
    beam: int = 1
    seed: int = 0
    precision: str = "float32"

    @property
    def at(self) -> str:
        """The coordinate."""
        return at_length(self.inputs[INPUTS].length, batch=self.batch, beam=self.beam)

    def tokens(self, device: str) -> Tensor:
        """`[time, batch]`, random."""
        first = self.inputs[INPUTS]
        drawn = torch.Generator().manual_seed(self.seed)
        return torch.randint(first.size, (first.length, self.batch), generator=drawn).to(device)

    def sources(self, device: str) -> dict[str, Tensor]:
        """Batch first, random and without padding; none where the model reads tokens alone."""
        drawn = torch.Generator().manual_seed(self.seed)
        found = {name: each for name, each in self.inputs.items() if name != INPUTS}
        return {
            name: random_input(each, (self.batch,), each.length, drawn).to(device)
            for name, each in found.items()
        }


@dataclass(frozen=True)
class TokenStep(Pass):
    """A step from a state that stays.

    Attributes:
        state_bytes: Of the state after it.
    """

    state_bytes: int = 0


def _measured(
    trial: Trial, device: str, clock: Clock, copies: float, decoding: Decoding
) -> Iterator[Said]:
    """Of all subjects at one coordinate; with their share of the copies, where these are known."""
    sizes: dict[str, int] = {}

    def step(spec: ModelSpec) -> Pass | Missing:
        found = next_token(spec, device, decoding)
        if isinstance(found, TokenStep):
            sizes[spec.spelling] = found.state_bytes
        return found

    timed = TimingComparison(
        trial=trial,
        device=device,
        clock=clock,
        compared=(METRIC,),
        operations=lambda spec: {METRIC: step(spec)},
        main_operation=lambda spec: cast("Pass", step(spec)),  # a control may be missing too
        at=decoding.at,
    )
    for found in timed.measured():
        yield found
        if found.metric == METRIC:
            spec = trial.subjects[found.subject]
            size = sizes.get(spec.spelling)
            yield from _rate_and_state(found, decoding.batch, size)
            if copies:
                read = (size or 0) + sum(p.nbytes for p in build_shapes(spec).parameters())
                yield share_of(copies, _SHARE, read, found)
    yield from timed.state_changes()


def _rate_and_state(
    timed: Measurement, batch: int, state_bytes: int | None
) -> Iterator[Measurement]:
    """What follows from the seconds of a step, and what was counted beside them."""
    yield rate_of(_RATE, batch, timed)
    why = {"status": timed.status, "reason": timed.reason} if state_bytes is None else {}
    yield measurement(_STATE, state_bytes, subject=timed.subject, at=timed.at, **why)


def next_token(spec: ModelSpec, device: str, decoding: Decoding) -> TokenStep | Missing:
    """The step that reads the last token for which there is a place."""
    return _at_precision(decoding.precision, device, lambda: _next_token(spec, device, decoding))


def _at_precision(
    precision: str, device: str, made: Callable[[], TokenStep | Missing]
) -> TokenStep | Missing:
    """The step, made and run at that precision."""
    with autocast_of(precision, device):
        found = made()
    if isinstance(found, Missing) or precision != "bf16":
        return found

    def run() -> None:
        with autocast_of(precision, device):
            found.run()

    return replace(found, run=run)


@torch.no_grad()
def _next_token(spec: ModelSpec, device: str, decoding: Decoding) -> TokenStep | Missing:
    model: Any = built(spec, device, decoding.seed).eval()
    sources = decoding.sources(device)
    encoded = (model.encode(**sources),) if sources else ()
    state = model.initial_state(decoding.batch, *encoded)
    last, state = _all_but_last(model, decoding.tokens(device), state)
    if not torch.equal(model.step(last, state)[0], model.step(last, state)[0]):
        return _changed_in_place(spec)
    if decoding.beam > 1:
        return _beam_step(model, last, state, decoding.beam)
    return _step_pass(model, last, state)


def _beam_step(model: Any, last: Tensor, state: Any, beam: int) -> TokenStep:
    """From the last token, read by all hypotheses of a sequence, to their states in order."""
    limits = last.new_full((len(last),), torch.iinfo(torch.int32).max)
    last = last.repeat_interleave(beam)
    state = map_state(state, lambda part: part.repeat_interleave(beam, dim=0))
    alike = tensors_of(state)
    logits, after = model.step(last, state)
    begun = Beams(Decoder(beam=beam), logits[::beam], end=None, limits=limits)
    begun.advance(logits)  # all slots begin alike, and now differ

    def run() -> None:
        with torch.no_grad():
            logits, after = model.step(last, state)
            rows = copy.copy(begun).advance(logits)
            reordered(after, rows, alike)

    return TokenStep(run, state_bytes=bytes_of(after))


def bytes_of(state: Any) -> int:
    """Of the numbers in a state, each tensor counted once."""
    found: dict[tuple[object, ...], int] = {}

    def note(part: Tensor) -> Tensor:
        found[part.data_ptr(), part.dtype, part.shape, part.stride()] = part.nbytes
        return part

    map_state(state, note)
    return sum(found.values())


def decode_step(
    spec: ModelSpec, device: str, seed: int, batch: int = 1, precision: str = "float32"
) -> Pass | Missing:
    """The step of a mixer alone, after `spec.length` tokens of each of so many sequences.

    It is built again, causal, with room for one token more.
    """
    reason = _why_not(spec, mixer_class(spec.mixer))
    if reason:
        return Missing(Status.SKIPPED, reason)
    try:
        model = built(
            replace(spec, architecture=CausalMixerAlone.name, length=spec.length + 1), device, seed
        ).eval()
    except ModelError as error:
        return Missing(Status.SKIPPED, f"{spec.mixer} has no causal form: {error}")
    drawn = torch.Generator().manual_seed(seed)
    tokens = torch.randn(spec.length + 1, batch, spec.dim, generator=drawn).to(device)
    mixer = cast("CausalMixerAlone", model).mixers[0]
    return _at_precision(precision, device, lambda: _step(mixer, spec, tokens))


def _why_not(spec: ModelSpec, kind: type[Mixer]) -> str:
    if not kind.supports_causal:
        return f"{spec.mixer} has no causal form: {kind.why_not_causal}"
    if not kind.supports_step:
        return f"{spec.mixer} has no step form"
    return "" if spec.runtime == "eager" else f"steps are run eagerly, not by {spec.runtime!r}"


@torch.no_grad()
def _step(mixer: Mixer, spec: ModelSpec, tokens: Tensor) -> TokenStep | Missing:
    """Of `[time, batch, dim]`."""
    last, state = _all_but_last(mixer, tokens, mixer.initial_state(tokens.shape[1]))
    before = [part.clone() for part in state]
    mixer.step(last, state)
    if not all(map(_are_equal, before, state)):
        return _changed_in_place(spec)
    return _step_pass(mixer, last, state)


def _all_but_last(stepper: Any, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
    """The last token, and the state after the others; `stepper` is a mixer or a whole model."""
    for token in tokens[:-1]:
        _, state = stepper.step(token, state)
    return tokens[-1], state


def _step_pass(stepper: Any, token: Tensor, state: Any) -> TokenStep:
    def run() -> None:
        with torch.no_grad():
            stepper.step(token, state)

    return TokenStep(run, state_bytes=bytes_of(stepper.step(token, state)[1]))


def _changed_in_place(spec: ModelSpec) -> Missing:
    name = spec.mixer or spec.architecture
    reason = f"{name} changes its state in place, so no step can be taken again"
    return Missing(Status.SKIPPED, reason)


def _are_equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())

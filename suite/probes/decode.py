"""Time the next token of autoregressive decoding, and count the bytes of the state.

In use, a model reads its own last output as the next input, so tokens are decoded one by one, and
the cost of a token depends on how the model stores the previous ones. At ``length=L`` the model has
read L - 1 tokens of each sequence, and reads the last token for which it has a position, again and
again from the same state. If there is a source, it has the task's maximum length and was read
before.

``batch=B`` decodes B sequences at once, ``beam=K`` keeps K hypotheses of each; the default of both
is 1. A step with a beam reads a token of each hypothesis, searches the best continuations and
reorders the states; without a beam it ends with the logits. A rate counts the tokens by which
sequences grow: one per sequence and step. The state is measured after L tokens, over all hypotheses
of all sequences, with each tensor counted once. At bf16 each step runs under autocast, as in
training: parameters stay in float32 and are cast in every step.

All variants are interleaved in one process; see `bakeoff.suite.timing`.

On a GPU the peak rate of copies is measured first, and the share of it that a step uses is
reported: the minimum number of bytes that a step must read, which are all parameters and the state,
divided by its seconds and by the bytes per second of a copy, which counts reads and writes. The
bytes that a step writes are few and not counted. The share is not reported for models with a
source, since their steps read only a part of the parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from bakeoff.models import (
    Decoder,
    Input,
    Mixer,
    ModelError,
    ModelSpec,
    architecture_class,
    build_shapes,
    mixer_class,
)
from bakeoff.models.architectures.mixer_alone import CausalMixerAlone
from bakeoff.models.decoding import Beams, map_state, reordered, tensors_of
from bakeoff.models.interface import INPUTS
from bakeoff.suite.probes.probe import Probe, Said, at_length, measurement, rate_of, share_of
from bakeoff.suite.schema import Measurement, Parallel, Status, Trial, metric_spec
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.timing.clock import Clock, clock_of
from bakeoff.suite.timing.comparison import TimingComparison
from bakeoff.suite.timing.passes import Missing, Pass, built, random_input
from bakeoff.suite.timing.peaks import are_wanted, peaks
from bakeoff.suite.training.recipes import autocast_of

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
        """Return why a trial is skipped; the model must decode step by step."""
        if reason := architecture_class(model.architecture).why_silent(model):
            return reason
        return super().why_not(model, parallel)

    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """Time all subjects and controls, once for each batch and beam."""
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
    """The settings of decoding.

    Attributes:
        inputs: The inputs by name; the length of the first one is the number of tokens to read.
        batch: The number of sequences that are decoded at once.
        beam: The number of hypotheses of each sequence.
        seed: The seed of tokens, sources and parameters.
        precision: The precision of a recipe.
    """

    inputs: Mapping[str, Input]
    batch: int = 1
    beam: int = 1
    seed: int = 0
    precision: str = "float32"

    @property
    def at(self) -> str:
        """The coordinate of the measurements."""
        return at_length(self.inputs[INPUTS].length, batch=self.batch, beam=self.beam)

    def tokens(self, device: str) -> Tensor:
        """Return random tokens, `[time, batch]`."""
        first = self.inputs[INPUTS]
        drawn = torch.Generator().manual_seed(self.seed)
        return torch.randint(first.size, (first.length, self.batch), generator=drawn).to(device)

    def sources(self, device: str) -> dict[str, Tensor]:
        """Return random sources without padding, batch first; empty without a source."""
        drawn = torch.Generator().manual_seed(self.seed)
        found = {name: each for name, each in self.inputs.items() if name != INPUTS}
        return {
            name: random_input(each, (self.batch,), each.length, drawn).to(device)
            for name, each in found.items()
        }


@dataclass(frozen=True)
class TokenStep(Pass):
    """A decoding step that always starts from the same state.

    Attributes:
        state_bytes: The bytes of the state after the step.
    """

    state_bytes: int = 0


def _measured(
    trial: Trial, device: str, clock: Clock, copies: float, decoding: Decoding
) -> Iterator[Said]:
    """Yield the measurements of all subjects at one coordinate, with the share of copies."""
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
    """Return the measurements that follow from the time of a step, and the bytes of the state."""
    yield rate_of(_RATE, batch, timed)
    why = {"status": timed.status, "reason": timed.reason} if state_bytes is None else {}
    yield measurement(_STATE, state_bytes, subject=timed.subject, at=timed.at, **why)


def next_token(spec: ModelSpec, device: str, decoding: Decoding) -> TokenStep | Missing:
    """Return the step that reads the last token for which there is a position."""
    return _at_precision(decoding.precision, device, lambda: _next_token(spec, device, decoding))


def _at_precision(
    precision: str, device: str, made: Callable[[], TokenStep | Missing]
) -> TokenStep | Missing:
    """Return the step, built and run at the given precision."""
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
    """Return the step from the last token of each hypothesis to their reordered states."""
    limits = last.new_full((len(last),), torch.iinfo(torch.int32).max)
    last = last.repeat_interleave(beam)
    state = map_state(state, lambda part: part.repeat_interleave(beam, dim=0))
    alike = tensors_of(state)
    logits, after = model.step(last, state)
    begun = Beams(Decoder(beam=beam), logits[::beam], end=None, limits=limits)
    begun.advance(logits)  # all slots begin with the same hypothesis, and differ from here on

    def run() -> None:
        with torch.no_grad():
            logits, after = model.step(last, state)
            rows = copy.copy(begun).advance(logits)
            reordered(after, rows, alike)

    return TokenStep(run, state_bytes=bytes_of(after))


def bytes_of(state: Any) -> int:
    """Return the bytes of the tensors in a state, each tensor counted once."""
    found: dict[tuple[object, ...], int] = {}

    def note(part: Tensor) -> Tensor:
        found[part.data_ptr(), part.dtype, part.shape, part.stride()] = part.nbytes
        return part

    map_state(state, note)
    return sum(found.values())


def decode_step(
    spec: ModelSpec, device: str, seed: int, batch: int = 1, precision: str = "float32"
) -> Pass | Missing:
    """Return the step of a mixer alone, after `spec.length` tokens of each of `batch` sequences.

    The mixer is built again in its causal form, with room for one more token.
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
    """Return the last step of a mixer over `tokens` `[time, batch, dim]`."""
    last, state = _all_but_last(mixer, tokens, mixer.initial_state(tokens.shape[1]))
    before = [part.clone() for part in state]
    mixer.step(last, state)
    if not all(map(_are_equal, before, state)):
        return _changed_in_place(spec)
    return _step_pass(mixer, last, state)


def _all_but_last(stepper: Any, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Return the last token, and the state after the others; `stepper` is a mixer or a model."""
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

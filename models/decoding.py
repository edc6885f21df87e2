"""Greedy and beam search for every model that writes token by token.

A model writes if it has `initial_state` and `step`; one that first reads a source also has
`encode`. See `Writer`. Both searches process a whole batch; rows are independent of each other.

Score of a hypothesis y: log p(y) / ((5 + |y|) / 6)^a, where |y| counts the end symbol and a is the
length penalty (Wu et al. 2016, arXiv:1609.08144, equation 14, without its coverage term).
Hypotheses are compared by log p(y) during the search, since the open ones are equally long; they
are normalised once, when they end.

Definition of a beam of k: each step considers the k best continuations. One that ends is stored,
and **its slot is refilled** by the next best open one, so that k hypotheses remain open; in
implementations that lose the slot instead (Bahdanau et al. 2014), the same k is a narrower search.
A row is done when k of its hypotheses have ended, when no open one can beat the best that has
ended, or at its limit. A hypothesis that has ended is preferred to any that was cut at the limit.
So a beam of 1 is greedy search, and a beam of all hypotheses is exhaustive search.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from bakeoff.models.errors import ModelError


class Writer(Protocol):
    """The methods that a model needs in order to write.

    A model that reads a source also has ``encode(**inputs)``; `initial_state` then takes its result
    as a second argument. A state consists of tensors, batch first, in tuples, lists, dictionaries
    and dataclasses; any other value in it must be the same for all rows. `step` does not modify
    the state that it is given.
    """

    def initial_state(self, batch: int, /) -> Any:
        """Return the state of `batch` rows before the first token."""

    def step(self, tokens: Tensor, state: Any, /) -> tuple[Tensor, Any]:
        """Read one token `[batch]` per row; return logits `[batch, symbols]` and the new state."""


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Options of the search for free-running outputs.

    Attributes:
        beam: Number of open hypotheses per row; 1 is greedy search.
        length_penalty: The exponent a of the module's docstring; 0 compares log probabilities,
            1 nearly their means.
        max_length: The maximum number of symbols to write, including the end symbol.
    """

    beam: int = 1
    length_penalty: float = 0.6
    max_length: int = 256

    def __post_init__(self) -> None:
        for key in ("beam", "max_length"):
            value = getattr(self, key)
            if type(value) is not int or value < 1:
                raise ModelError(f"Decoder: {key}={value!r} is not a whole number of at least 1")
        if not 0 <= self.length_penalty < float("inf"):
            raise ModelError(
                f"Decoder: length_penalty={self.length_penalty!r} is not a finite number of at "
                "least 0"
            )


@dataclass(frozen=True)
class Decoded:
    """The output of a search for each row.

    Attributes:
        tokens: `[batch, time]`, without the given tokens; after the last token of a row, filled
            with the end symbol, or with 0 if there is none.
        lengths: `[batch]`, number of tokens per row, without the end symbol.
        scores: `[batch]`, see the module's docstring.
        has_ended: `[batch]`, False if a row was cut at its limit.
    """

    tokens: Tensor
    lengths: Tensor
    scores: Tensor
    has_ended: Tensor

    @property
    def num_cut(self) -> int:
        """The number of rows that did not end."""
        return int((~self.has_ended).sum())

    def rows(self) -> list[list[int]]:
        """Return the tokens of each row, without filling."""
        pairs = zip(self.tokens.tolist(), self.lengths.tolist(), strict=True)
        return [row[:length] for row, length in pairs]


@torch.no_grad()
def generate(
    model: Any,
    inputs: Mapping[str, Tensor],
    decoder: Decoder,
    *,
    start: Tensor,
    end: int | None,
    limits: Tensor | None = None,
) -> Decoded:
    """Generate free-running: the model reads its own outputs. Call `model.eval()` before.

    Args:
        model: A `Writer`.
        inputs: Arguments of its `encode`; empty for a model without one.
        decoder: Options of the search.
        start: `[batch, time]`, the first tokens of each row: a start symbol or a prompt.
        end: The symbol that ends a row, or None to write every row to its limit.
        limits: `[batch]`, the maximum number of symbols per row, such as 2 |x| + 10 for a source x,
            or None for the decoder's `max_length`, which applies in any case.

    Raises:
        ModelError: The model does not write, `start` is not `[batch, time]` with at least one
            token, or `step` raises.
    """
    if not (hasattr(model, "initial_state") and hasattr(model, "step")):
        raise ModelError(f"{type(model).__name__} does not write: it has no initial_state and step")
    if start.ndim != 2 or start.shape[1] == 0:
        raise ModelError(f"start is [batch, time] with a token at least, not {list(start.shape)}")
    encoded = (model.encode(**inputs),) if inputs else ()
    state = model.initial_state(len(start), *encoded)
    for tokens in start.unbind(dim=1):
        logits, state = model.step(tokens, state)
    most = start.new_full((len(start),), decoder.max_length)
    limits = most if limits is None else limits.to(most).clamp(min=1).minimum(most)
    search = greedy_search if decoder.beam == 1 else beam_search
    return search(model, logits, state, decoder, end=end, limits=limits)


def greedy_search(
    model: Writer, logits: Tensor, state: Any, decoder: Decoder, *, end: int | None, limits: Tensor
) -> Decoded:
    """Choose the most probable symbol at each step.

    Args:
        model: The model that steps.
        logits: `[batch, symbols]`, for the first symbol to write.
        state: The state after the given tokens of each row.
        decoder: Options of the search; only the length penalty is used.
        end: See `generate`.
        limits: `[batch]`, the maximum number of symbols per row.
    """
    filling = 0 if end is None else end
    total = torch.zeros_like(logits[:, 0], dtype=torch.promote_types(logits.dtype, torch.float32))
    lengths, has_ended = torch.zeros_like(limits), torch.zeros_like(limits).bool()
    is_open, written = ~has_ended, []
    while True:
        best, tokens = _log_probabilities(logits).max(dim=-1)
        total = torch.where(is_open, total + best, total)
        has_ended |= is_open & (tokens == end) if end is not None else False
        written.append(tokens.masked_fill(~is_open, filling))
        is_open = is_open & ~has_ended
        lengths = lengths + is_open
        is_open = is_open & (lengths < limits)
        if not is_open.any():
            break
        logits, state = model.step(written[-1], state)
    scores = total / _length_factor(lengths + has_ended, decoder)
    return _cropped(torch.stack(written, dim=1), lengths, scores, has_ended, filling)


def beam_search(
    model: Writer, logits: Tensor, state: Any, decoder: Decoder, *, end: int | None, limits: Tensor
) -> Decoded:
    """Return the best hypotheses that end; see the module's docstring and `greedy_search`."""
    beams = Beams(decoder, logits, end, limits)
    logits = logits.repeat_interleave(decoder.beam, dim=0)
    state = map_state(state, lambda part: part.repeat_interleave(decoder.beam, dim=0))
    alike = tensors_of(state)
    while True:
        rows = beams.advance(logits)
        if beams.is_done.all():
            return beams.best()
        state = reordered(state, rows, alike)
        logits, state = model.step(beams.newest(), state)


def tensors_of(state: Any) -> dict[int, Tensor]:
    """Return the tensors of a state by their `id`; ids stay valid while this dictionary lives."""
    found: dict[int, Tensor] = {}

    def note(part: Tensor) -> Tensor:
        found[id(part)] = part
        return part

    map_state(state, note)
    return found


def reordered(state: Any, rows: Tensor, alike: Mapping[int, Tensor]) -> Any:
    """Return the state whose row i is row ``rows[i]`` of the given one.

    Args:
        state: The state after a step.
        rows: `[batch * beam]`, each a slot of the same sequence; see `Beams.advance`.
        alike: The tensors before the slots diverged; see `tensors_of`. A tensor that a step passes
            on unchanged, such as a source, is still equal in all slots and is not reordered.
    """
    return map_state(state, lambda part: part if id(part) in alike else part.index_select(0, rows))


class Beams:
    """The hypotheses of all rows, `[batch, beam]`, sorted by probability.

    No tensor is changed in place, so a shallow copy can be advanced independently.
    """

    def __init__(self, decoder: Decoder, logits: Tensor, end: int | None, limits: Tensor) -> None:
        self.decoder, self.end, self.limits = decoder, end, limits
        batch, wide = len(logits), torch.promote_types(logits.dtype, torch.float32)
        # All slots start equal, so only the first one is possible.
        self.totals = logits.new_full((batch, decoder.beam), -torch.inf, dtype=wide)
        self.totals[:, 0] = 0.0
        self.tokens = limits.new_zeros(batch, decoder.beam, 0)
        self.num_ended = torch.zeros_like(limits)
        self.is_done = torch.zeros_like(limits).bool()
        self.has_ended = torch.zeros_like(self.is_done)
        self.scores = self.totals.new_full((batch,), -torch.inf)
        self.lengths = torch.zeros_like(limits)
        self.kept = limits.new_zeros(batch, 0)  # tokens of the best hypotheses so far

    def newest(self) -> Tensor:
        """Return the last token of each hypothesis, `[batch * beam]`."""
        return self.tokens[:, :, -1].flatten()

    def advance(self, logits: Tensor) -> Tensor:
        """Extend all hypotheses by one symbol.

        Args:
            logits: `[batch * beam, symbols]`.

        Returns:
            `[batch * beam]`, the row of the state from which each hypothesis continues.
        """
        beam, symbols = self.decoder.beam, logits.shape[-1]
        added = _log_probabilities(logits).view(-1, beam, symbols)
        flat = (self.totals.unsqueeze(-1) + added).flatten(1)
        # At most one continuation of each slot ends, so twice as many include enough open ones.
        totals, places = flat.topk(min(2 * beam, flat.shape[1]))
        origins, symbol = places // symbols, places % symbols
        ends = symbol == (-1 if self.end is None else self.end)
        self._keep_ended(totals[:, :beam], origins[:, :beam], ends[:, :beam])
        self.totals, chosen = _filled(totals.masked_fill(ends, -torch.inf), beam).topk(beam)
        chosen = chosen.clamp(max=places.shape[1] - 1)
        origins, symbol = origins.gather(1, chosen), symbol.gather(1, chosen)
        self.tokens = torch.cat([_of_slots(self.tokens, origins), symbol.unsqueeze(-1)], dim=-1)
        self._finish_rows()
        first = beam * torch.arange(len(origins), device=origins.device)
        return (first.unsqueeze(1) + origins).flatten()

    def _keep_ended(self, totals: Tensor, origins: Tensor, ends: Tensor) -> None:
        """Record hypotheses that end now, `[batch, beam]` sorted by probability."""
        length = self.tokens.shape[-1] + 1
        counted = ends & totals.isfinite() & ~self.is_done.unsqueeze(1)
        self.num_ended = self.num_ended + counted.sum(dim=1)
        best, slot = totals.masked_fill(~counted, -torch.inf).max(dim=1)
        scores = best / _length_factor(length, self.decoder)
        is_better = counted.any(dim=1) & (scores > self.scores)
        tokens = _of_slots(self.tokens, origins.gather(1, slot.unsqueeze(1))).squeeze(1)
        self.has_ended = self.has_ended | is_better
        self._keep(is_better, tokens, scores)

    def _finish_rows(self) -> None:
        """Mark rows as done that are at their limit or that no open hypothesis can improve."""
        length = self.tokens.shape[-1]
        at_limit = length >= self.limits
        is_cut = at_limit & ~self.is_done & ~self.has_ended
        totals, tokens = self.totals[:, 0], self.tokens[:, 0]
        self._keep(is_cut, tokens, totals / _length_factor(length, self.decoder))
        reachable = totals / _length_factor(self.limits, self.decoder)
        is_won = self.has_ended & (reachable <= self.scores)
        is_full = self.num_ended >= self.decoder.beam
        self.is_done = self.is_done | at_limit | is_won | is_full

    def _keep(self, rows: Tensor, tokens: Tensor, scores: Tensor) -> None:
        """Store `tokens` `[batch, time]` as the best of `rows`."""
        missing = tokens.shape[1] - self.kept.shape[1]
        if missing > 0:
            self.kept = torch.nn.functional.pad(self.kept, (0, missing))
        self.kept = torch.where(rows.unsqueeze(1), tokens, self.kept)
        self.scores = torch.where(rows, scores, self.scores)
        self.lengths = torch.where(rows, tokens.shape[1], self.lengths)

    def best(self) -> Decoded:
        """Return the best hypothesis of each row."""
        filling = 0 if self.end is None else self.end
        return _cropped(self.kept, self.lengths, self.scores, self.has_ended, filling)


def map_state(state: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return the state with `function` applied to each of its tensors; see `Writer`."""
    if isinstance(state, Tensor):
        return function(state)
    if isinstance(state, Mapping):
        return {key: map_state(part, function) for key, part in state.items()}
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*(map_state(part, function) for part in state))
    if isinstance(state, tuple | list):
        return type(state)(map_state(part, function) for part in state)
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        parts = {each.name: getattr(state, each.name) for each in dataclasses.fields(state)}
        return dataclasses.replace(state, **map_state(parts, function))
    return state


def _log_probabilities(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)


def _length_factor(length: Any, decoder: Decoder) -> Any:
    """Compute ((5 + |y|) / 6)^a."""
    return ((5 + length) / 6) ** decoder.length_penalty


def _filled(totals: Tensor, least: int) -> Tensor:
    """Pad `totals` to at least `least` columns; added columns are impossible (-inf)."""
    missing = max(0, least - totals.shape[1])
    return torch.nn.functional.pad(totals, (0, missing), value=-torch.inf)


def _of_slots(tokens: Tensor, slots: Tensor) -> Tensor:
    """Select `slots` `[batch, k]` of `tokens` `[batch, beam, time]` as `[batch, k, time]`."""
    return tokens.gather(1, slots.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))


def _cropped(
    tokens: Tensor, lengths: Tensor, scores: Tensor, has_ended: Tensor, filling: int
) -> Decoded:
    """Crop the tokens to the longest row, and fill the shorter rows."""
    tokens = tokens[:, : int(lengths.max())]
    is_after = torch.arange(tokens.shape[1], device=tokens.device) >= lengths.unsqueeze(1)
    return Decoded(tokens.masked_fill(is_after, filling), lengths, scores, has_ended)

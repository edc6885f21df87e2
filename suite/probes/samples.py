"""Collect what a trained model leaves to look at: attention maps, position matrices, a text.

For people, of one seed, once the last number is known. None of it moves a number: the model is in
evaluation mode, and torch's random state is restored. What fails is left out, since a picture must
not cost a result.

A language model continues a held-out prompt, token by token: by the step form where the mixers
have it, as models decode in use; else all that it sees is read again for every token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

from models import Skeleton
from models.architectures.language_model import LanguageModel
from suite.probes.attention_maps import (
    attention_maps,
    first_example,
    mixers_of,
    position_matrices,
    shown,
)
from suite.schema import Specimen
from suite.tasks.task import Task
from suite.training.engines.evaluation import in_evaluation_mode

FIRST_SEED = 0
NUM_TOKENS = 200
MAX_PROMPT = 64
TEMPERATURE = 0.8
_SEED = 0  # of the drawn tokens; the same for all variants, so that only what they learned differs


def continuation(model: Skeleton, task: Task) -> list[Specimen]:
    """The prompt and what follows it; nothing where the model or the task writes no text."""
    if not isinstance(model, LanguageModel) or not model.is_causal:
        return []
    example = first_example(model, task, min(MAX_PROMPT, max(1, model.spec.length // 2)))
    prompt = shown(example, task)
    if not prompt:
        return []
    written = written_on(model, example.inputs[0].tolist(), NUM_TOKENS)
    return [
        Specimen(kind="text", title="prompt", text=prompt),
        Specimen(kind="text", title="continuation", text=task.text(written)),
    ]


def written_on(model: LanguageModel, tokens: Sequence[int], num_tokens: int) -> list[int]:
    """What follows the tokens, drawn one by one from the model's sharpened probabilities."""
    generator = torch.Generator().manual_seed(_SEED)
    seen = list(tokens)
    can_step = all(mixer.supports_step for mixer in mixers_of(model))
    following = _by_steps(model, seen) if can_step else _by_windows(model, seen)
    for _ in range(num_tokens):
        chances = (next(following).float().cpu() / TEMPERATURE).softmax(dim=-1)
        seen.append(int(torch.multinomial(chances, 1, generator=generator)))
    return seen[len(tokens) :]


def _by_steps(model: LanguageModel, seen: list[int]) -> Iterator[Tensor]:
    """Logits of the token after those seen, which grow between two of them.

    Positions end with the length that the model was trained at. There it begins anew, and reads
    the last quarter again.
    """
    length = model.spec.length
    device = next(model.parameters()).device
    state, unread = model.initial_state(1), seen[-length:]
    while True:
        for token in unread:
            logits, state = model.step(torch.tensor([token], device=device), state)
        yield logits[0]
        is_full = state.num_tokens == length
        unread = seen[-max(1, length // 4) :] if is_full else seen[-1:]
        state = model.initial_state(1) if is_full else state


def _by_windows(model: LanguageModel, seen: list[int]) -> Iterator[Tensor]:
    """As `_by_steps`, of a model that has no such form: from as many tokens as it may see."""
    device = next(model.parameters()).device
    while True:
        window = torch.tensor([seen[-model.spec.length :]], device=device)
        yield model(window)[0, -1]


_Look = Callable[[Skeleton, Task], list[Specimen]]
LOOKS: tuple[_Look, ...] = (attention_maps, position_matrices, continuation)


def specimens_of(model: Skeleton, task: Task, seed: int) -> tuple[Specimen, ...]:
    """What the model does with the first held-out example; nothing for other seeds than the first.

    Args:
        model: Trained; it stays where it is and as it was.
        task: What it was trained on. Validation data are shown, never test data.
        seed: Of the trial.
    """
    found: list[Specimen] = []
    if seed == FIRST_SEED:
        with _undisturbed(model):
            for look in LOOKS:
                with suppress(Exception, SystemExit):  # a mixer may do anything
                    found.extend(look(model, task))
    return tuple(found)


@contextmanager
def _undisturbed(model: Skeleton) -> Iterator[None]:
    """In evaluation mode, without gradients; torch's random state is as before in the end."""
    device = next(model.parameters()).device
    cards = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cards), in_evaluation_mode(model), torch.no_grad():
        yield

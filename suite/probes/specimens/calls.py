"""Find the mixers of a model, and note what they are called with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

from models import Mixer

Call = tuple[tuple[Any, ...], dict[str, Any]]


def mixers_of(model: nn.Module) -> list[Mixer]:
    """Of all layers, from the bottom upwards."""
    return [module for module in model.modules() if isinstance(module, Mixer)]


def has_weights(mixer: Mixer) -> bool:
    """Whether it defines `attention_weights`."""
    return type(mixer).attention_weights is not Mixer.attention_weights


@contextmanager
def calls_noted(mixers: Sequence[Mixer]) -> Iterator[dict[Mixer, Call]]:
    """What each is called with first, inside the block."""
    calls: dict[Mixer, Call] = {}

    def note(mixer: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        calls.setdefault(mixer, (arguments, named))

    hooks = [mixer.register_forward_pre_hook(note, with_kwargs=True) for mixer in mixers]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()

"""Name the version of each mixer and architecture; part of the ids of trials."""

from __future__ import annotations

from functools import cache

from models import Architecture, Mixer, ModelSpec, architecture_class, mixer_class
from models.registry import mixer_pattern
from suite.planning.own_modules import identity


@cache
def mixer_version(name: str) -> int | str:
    """Return a shipped mixer's own version; for a user's mixer the hash of all its code."""
    return _version(name, mixer_class(name))


@cache
def architecture_version(name: str) -> int | str:
    """Return the version of an architecture, likewise."""
    return _version(name, architecture_class(name))


def own_versions(spec: ModelSpec) -> tuple[int | str, ...]:
    """Return the versions of the user's classes in a model."""
    mixers = [mixer_version(name) for name in mixer_pattern(spec.mixer) if ":" in name]
    is_own = ":" in spec.architecture
    return (*mixers, *([architecture_version(spec.architecture)] if is_own else []))


def forget_versions() -> None:
    """Read all files again: in a long-lived process they may have been edited."""
    mixer_version.cache_clear()
    architecture_version.cache_clear()


def _version(name: str, kind: type[Mixer] | type[Architecture]) -> int | str:
    return identity(name, kind) if ":" in name else kind.version

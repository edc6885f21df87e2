"""Load mixers and architectures, and assign each knob to the one that has it."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import Any, Literal, TypeVar, Union, get_type_hints

from bakeoff.models import (
    ARCHITECTURES,
    MIXERS,
    Architecture,
    Knob,
    Mixer,
    ModelError,
    architecture_class,
    mixer_class,
)
from bakeoff.models.model_spec import (
    config_from_knobs,
    without_late_defaults,
    without_reading_knobs,
)
from bakeoff.models.registry import mixer_pattern
from bakeoff.suite.errors import MOST_OF_A_REASON, UsageError, unknown_name, words_of, writable
from bakeoff.suite.planning.loader import guarded
from bakeoff.suite.planning.variants import Baseline, Variant
from bakeoff.suite.probes.probe import Probe, probe
from bakeoff.suite.schema.task_names import is_own_class
from bakeoff.suite.spec import (
    MODEL_FIELDS,
    SWEEPS,
    TEACHER,
    WHOLE_MODEL,
    Ablation,
    Model,
    Recipe,
    Scale,
    SpecError,
)
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.tasks.task import Task, TaskError

# Names that have another meaning in an ablation.
NOT_KNOBS = MODEL_FIELDS | set(Scale.model_fields) | {"task", WHOLE_MODEL, TEACHER}


_Part = TypeVar("_Part", Mixer, Architecture)
_Class = TypeVar("_Class")


class Impossible(Exception):
    """Raised for a cell that cannot run; the message is the reason in its row."""


def load_mixer(name: str) -> type[Mixer]:
    """Return the class of a mixer, shipped or ``package.module:Class``.

    Raises:
        SpecError: If it does not exist, or if its module cannot be imported.
    """
    kind = _loaded("mixer", mixer_class, name)
    if ":" in name:
        _refuse_taken_names(f"mixer {name!r}", kind, taken_names())
    return kind


def load_mixers(pattern: str) -> dict[str, type[Mixer]]:
    """Return the classes of the mixers that a pattern repeats, by name.

    Raises:
        SpecError: In the same cases as `load_mixer`, or if the pattern is invalid.
    """
    try:
        names = mixer_pattern(pattern)
    except ModelError as error:
        raise SpecError(f"{error}.") from None
    return {name: load_mixer(name) for name in names}


def knobs_of(pattern: str) -> set[str]:
    """Return the knobs of all mixers of a pattern."""
    return set().union(*map(knob_names, load_mixers(pattern).values()))


def load_architecture(name: str) -> type[Architecture]:
    """Return the class of an architecture, shipped or ``package.module:Class``."""
    kind = _loaded("architecture", architecture_class, name)
    if ":" in name:
        _refuse_taken_names(f"architecture {name!r}", kind, NOT_KNOBS)
    return kind


def has_hole(architecture: str) -> bool:
    """Return True if the architecture takes a mixer."""
    return "mixer" in load_architecture(architecture).takes


def knob_names(kind: type[Mixer] | type[Architecture]) -> set[str]:
    """Return the names of the fields of its `Config`."""
    return {field.name for field in dataclasses.fields(kind.Config)}


@cache
def architecture_knob_names() -> frozenset[str]:
    """Return the knobs of all shipped architectures that take a mixer."""
    every = (knob_names(architecture_class(name)) for name in ARCHITECTURES if has_hole(name))
    return frozenset().union(*every)


def taken_names() -> frozenset[str]:
    """Return the names that a knob must not have, since an ablation uses them otherwise."""
    return architecture_knob_names() | NOT_KNOBS


def _refuse_taken_names(
    what: str, kind: type[Mixer] | type[Architecture], taken: frozenset[str]
) -> None:
    for knob in sorted(knob_names(kind) & taken):
        owner = "an ablation has" if knob in NOT_KNOBS else "architectures have"
        raise SpecError(f"{what}: {owner} a {knob!r} already; rename this knob of its Config.")


def _loaded(kind: str, find: Callable[[str], type[_Part]], name: str) -> type[_Part]:
    if ":" not in name:
        return _found(find, name)
    part = _imported(kind, find, name)
    if not dataclasses.is_dataclass(part.Config):
        raise SpecError(f"{kind} {name!r}: its Config must be a frozen dataclass.")
    return part


def _imported(kind: str, find: Callable[[str], type[_Class]], name: str) -> type[_Class]:
    """Find a class in a user's module, whose import may raise any exception."""
    module = name.partition(":")[0]
    if module == "__main__":
        raise SpecError(
            f"{kind} {name!r}: trials cannot import a class defined in the main program; put the "
            "class into its own file, such as my_models.py, and name it "
            f"'my_models:{name.partition(':')[2]}'."
        )
    _look_in_current_folder(module)
    try:
        is_loaded = module in sys.modules
        with nullcontext() if is_loaded else guarded(f"{kind} {name!r}"):
            return _found(find, name)
    except (UsageError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        raise SpecError(f"{kind} {name!r}: its module ends the program ({error!r}).") from None
    except BaseException as error:
        raise SpecError(f"{kind} {name!r} cannot be imported: {words_of(error)}.") from None


def _look_in_current_folder(module: str) -> None:
    """Let Python find a module of the current folder, as `python` itself does; last of all."""
    top, here = module.partition(".")[0], os.getcwd()
    is_new = top.isidentifier() and top not in sys.modules
    if is_new and here not in sys.path and "" not in sys.path:
        places = (os.path.join(here, top), os.path.join(here, f"{top}.py"))
        if importlib.util.find_spec(top) is None and any(map(os.path.exists, places)):
            sys.path.append(here)


def _found(find: Callable[[str], type[_Class]], name: str) -> type[_Class]:
    try:
        return find(name)
    except ModelError as error:
        raise SpecError(f"{error}.") from None


def refuse_impossible_teachers(ablation: Ablation, scale: Scale) -> None:
    """Check the teacher models in the same way as the baseline.

    Raises:
        SpecError: In the same cases as `with_defaults`.
    """
    varied = (axis.values for axis in ablation.axes if axis.name == TEACHER)
    for model in (ablation.teacher, *(value for values in varied for value in values)):
        if isinstance(model, Model):
            size = scale.model_copy(update={"dim": scale.teacher_dim or scale.dim})
            taught = ablation.model_copy(update={"baseline": model})
            with_defaults(taught, size, what="the teacher")


def with_defaults(
    ablation: Ablation, scale: Scale, *, what: str = "the baseline"
) -> dict[str, Knob]:
    """Return the baseline's knobs, with the defaults of its mixer and architectures filled in.

    Raises:
        SpecError: If the mixer, a task or a knob is unknown, or if the combination is impossible.
    """
    model = ablation.baseline
    scale = scale_with(scale, model.sizes)
    architectures = architectures_of(ablation)
    for each in (model, *_whole_models(ablation)):
        _refuse_misfit(each, architectures)
    mixers = [] if model.mixer is None else [model.mixer]
    owners = {name: knobs_of(name) for name in mixers}
    owners |= {name: knob_names(load_architecture(name)) for name in architectures}
    known = set().union(*owners.values(), *map(knobs_of, _varied_mixers(ablation)))
    for name in model.knobs:
        if name not in known and name in Scale.model_fields:
            owner = "Recipe and Scale" if name in Recipe.model_fields else "Scale"
            raise SpecError(f"{name!r} is a field of {owner}, not of Model.")
        if name not in known:
            fields = {field for field in Model.model_fields if field != "knobs"}
            kind = f"knob of {' or '.join(owners)} is called"
            raise SpecError(unknown_name(kind, name, known | fields))
    found: dict[str, Knob] = {}
    try:
        for mixer in mixers:
            dim = size_of(scale, "dim", mixer)
            found |= _complete_knobs(mixer, dim, _only(model.knobs, owners[mixer]))
        for architecture in architectures:
            found |= checked_settings(architecture, _only(model.knobs, owners[architecture]))
    except Impossible as reason:
        raise SpecError(f"{what} is impossible: {reason}.") from None
    return found


def _varied_mixers(ablation: Ablation) -> list[str]:
    """Return the mixers of an axis; the baseline may set a knob that only they have."""
    axes = (axis for axis in ablation.axes if axis.name == "mixer")
    return [value for axis in axes for value in axis.values if isinstance(value, str)]


def scale_with(scale: Scale, settings: Mapping[str, Knob]) -> Scale:
    """Return the scale, updated with the settings of a variant or of its model."""
    changed = {name: value for name, value in settings.items() if name in Scale.model_fields}
    if not changed:
        return scale
    # A warm-up that is not set is the default of the number of steps.
    return Scale(**{**scale.model_dump(exclude_unset=True), **changed})


def size_of(scale: Scale, size: Literal["dim", "depth"], owner: str) -> int:
    """Return the width or the depth of the scale.

    Raises:
        SpecError: If the scale has none, and the owner needs it.
    """
    found = scale.dim if size == "dim" else scale.depth
    if found is None:
        raise SpecError(
            f"{owner} needs {size}, which the scale does not set; give Scale({size}=...)."
        )
    return found


def _refuse_misfit(model: Model, architectures: Sequence[str]) -> None:
    """Raise if a mixer or a position is given but not taken, or if a required mixer is missing.

    Args:
        model: The model as specified.
        architectures: The architectures that apply if the model names none.
    """
    named = model.architecture
    if named is None:
        if model.mixer is None and (needing := [a for a in architectures if has_hole(a)]):
            raise SpecError(f"{needing[0]} needs a mixer; give Model(mixer=...).")
        return
    takes = load_architecture(named).takes
    if "mixer" in takes and model.mixer is None:
        raise SpecError(f"{named} needs a mixer; give Model({named!r}, mixer=...).")
    places = {
        "mixer": "slot for a mixer",
        "position": "place for a position",
        "dim": "knob dim",
        "depth": "knob depth",
    }
    for part, place in places.items():
        if part not in takes and part in model.model_fields_set:
            raise SpecError(f"{named} has no {place}; leave {part}={getattr(model, part)!r} out.")


def task_named(name: str) -> type[Task]:
    """Return the class of a task.

    Raises:
        SpecError: If it is unknown (the message suggests similar names), or if the user's own class
            or data do not make a task.
    """
    try:
        return _imported("task", task_class, name) if is_own_class(name) else task_class(name)
    except TaskError as error:
        raise SpecError(str(error)) from None


def probe_named(name: str) -> Probe:
    """Return a probe.

    Raises:
        SpecError: If it is unknown, or if the user's own class is not a complete probe.
    """
    if is_own_class(name):
        _imported("probe", lambda path: type(probe(path)), name)
    return probe(name)


def architectures_of(ablation: Ablation) -> tuple[str, ...]:
    """Return the architecture that the baseline names, or else those of all its tasks."""
    named = ablation.baseline.architecture
    if named is not None:
        load_architecture(named)
        return (named,)
    varied = [axis.values for axis in ablation.axes if axis.name == "task"]
    tasks = [*ablation.tasks, *(str(task) for values in varied for task in values)]
    return tuple(dict.fromkeys(task_named(task).architecture for task in tasks))


def refuse_foreign_axes(baseline: Baseline) -> None:
    """Raise if an axis is neither a field nor a knob of the models that it is combined with.

    These are the baseline's mixer and architectures and, if axes are combined, also those of the
    axes ``mixer``, ``architecture`` and ``model``.

    Raises:
        SpecError: The message lists the mixers that have such a knob, or else similar names.
    """
    ablation = baseline.ablation
    mixers, architectures = {ablation.baseline.mixer}, set(architectures_of(ablation))
    if ablation.combine != "one_at_a_time":
        mixers |= _varied(ablation, "mixer")
        architectures |= _varied(ablation, "architecture")
    knobs = set().union(
        *(knobs_of(name) for name in mixers if name is not None),
        *(knob_names(load_architecture(name)) for name in architectures),
    )
    allowed = knobs | (NOT_KNOBS - SWEEPS)
    for name in (axis.name for axis in ablation.axes):
        if name not in allowed:
            raise SpecError(_foreign_axis(baseline, name, allowed))


def knob_types(ablation: Ablation) -> dict[str, Any]:
    """Return knob -> its type, for every mixer and architecture of the ablation.

    Raises:
        SpecError: If a mixer, an architecture or a task is unknown.
    """
    own = {ablation.baseline.mixer} - {None}
    mixers = sorted(_varied(ablation, "mixer") | {str(name) for name in own})
    kinds: list[Any] = [kind for mixer in mixers for kind in load_mixers(mixer).values()]
    architectures = [*architectures_of(ablation), *sorted(_varied(ablation, "architecture"))]
    kinds += [load_architecture(name) for name in dict.fromkeys(architectures)]
    found: dict[str, Any] = {}
    for kind in kinds:
        try:
            hints = get_type_hints(kind.Config)
        except Exception as error:  # the annotations of a user's Config may be invalid
            raise SpecError(f"{kind.__name__}.Config cannot be read: {words_of(error)}.") from None
        for name in sorted(knob_names(kind)):
            found[name] = Union[found.get(name, hints[name]), hints[name]]  # noqa: UP007
    return found


def _whole_models(ablation: Ablation) -> Iterator[Model]:
    for axis in ablation.axes:
        is_meant = axis.name == WHOLE_MODEL
        yield from (value for value in axis.values if is_meant and isinstance(value, Model))


def _varied(ablation: Ablation, part: str) -> set[str]:
    """Return the mixers or architectures that axes set, including those in whole models."""
    values: list[object] = [value for a in ablation.axes if a.name == part for value in a.values]
    values += [getattr(model, part) for model in _whole_models(ablation)]
    return {str(value) for value in values if value is not None}


def _foreign_axis(baseline: Baseline, name: str, allowed: set[str]) -> str:
    """Explain an unknown axis: name similar ones, or the mixers that have such a knob."""
    model, varied = baseline.ablation.baseline, sorted(_varied(baseline.ablation, "mixer"))
    own = model.mixer
    every = dict.fromkeys((*varied, *MIXERS))
    having = [mixer for mixer in every if name in knobs_of(mixer)]
    unknown = unknown_name("axis", name, allowed)
    if not having or own is None:
        return unknown
    foreign = (
        f"the axis {name!r}: {own} has no such knob, and here the axis applies only to {own}; the "
        f"knob belongs to {', '.join(having)}. To compare with it, name whole models: "
        f'vary("{WHOLE_MODEL}", [Model(mixer="{own}"), Model(mixer="{having[0]}", {name}=...)]).'
    )
    return foreign if having[0] in varied else f"{unknown} Or: {foreign}"


def knobs_and_settings(
    of_model: Mapping[str, Knob], variant: Variant, mixer: str, architecture: str
) -> tuple[dict[str, Knob], dict[str, Knob]]:
    """Return the knobs of the mixer and of the architecture: the model's, then the variant's.

    Raises:
        SpecError: For a knob that both have.
        Impossible: For a knob of the variant that neither has.
    """
    of_mixer = knobs_of(mixer)
    of_architecture = knob_names(load_architecture(architecture))
    if both := sorted(of_mixer & of_architecture):
        raise SpecError(
            f"{architecture} and {mixer} both have a knob {both[0]!r}; rename the knob of your own "
            "class."
        )
    own = {name: value for name, value in variant.settings.items() if name not in NOT_KNOBS}
    for name in sorted(own.keys() - of_mixer - of_architecture):
        is_of_mixer = mixer and name not in architecture_knob_names()
        raise Impossible(f"{mixer if is_of_mixer else architecture} has no knob {name!r}")
    asked = {**of_model, **own}
    return _only(asked, of_mixer), _only(asked, of_architecture)


def _only(knobs: Mapping[str, Knob], names: set[str]) -> dict[str, Knob]:
    return {name: value for name, value in knobs.items() if name in names}


def checked_knobs(mixer: str, dim: int, knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """Return the mixer's knobs with defaults filled in, except late knobs at their default.

    For a pattern, return the knobs of all its mixers, without those whose values differ among the
    mixers: each mixer then uses its own default.

    Raises:
        SpecError: For a knob that is invalid by itself.
        Impossible: For a knob that does not fit the others or the width.
    """
    kinds = load_mixers(mixer)
    every = _knobs_of_each(kinds, dim, knobs)
    return _shared([without_late_defaults(kinds[n].Config, own) for n, own in every.items()])


def _complete_knobs(mixer: str, dim: int, knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """Return the mixer's knobs, including late ones that have their default."""
    return _shared([*_knobs_of_each(load_mixers(mixer), dim, knobs).values()])


def _knobs_of_each(
    kinds: Mapping[str, type[Mixer]], dim: int, knobs: Mapping[str, Knob]
) -> dict[str, dict[str, Knob]]:
    found: dict[str, dict[str, Knob]] = {}
    for name, kind in kinds.items():
        own = knobs if len(kinds) == 1 else _only(knobs, knob_names(kind))
        found[name] = _checked(name, kind.Config, own, partial(kind.check_config, dim=dim))
    return found


def _shared(found: Sequence[Mapping[str, Knob]]) -> dict[str, Knob]:
    """Return all knobs except those whose values differ."""
    complete = {key: value for each in found for key, value in each.items()}
    return {k: v for k, v in complete.items() if all(each.get(k, v) == v for each in found)}


def knobs_in_training(mixer: str, knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """Return the mixer's knobs without those that only affect evaluation mode."""
    found = dict(knobs)
    for kind in load_mixers(mixer).values():
        found = without_reading_knobs(kind.Config, found)
    return found


def checked_settings(architecture: str, knobs: Mapping[str, Knob]) -> dict[str, Knob]:
    """Return the architecture's knobs, with defaults filled in."""
    kind = load_architecture(architecture)
    return _checked(architecture, kind.Config, knobs, kind.check_config)


def _checked(
    owner: str, kind: type[Any], knobs: Mapping[str, Knob], check: Callable[[Any], None]
) -> dict[str, Knob]:
    """Return the fields of the `Config`, with defaults filled in."""
    try:
        config = config_from_knobs(kind, knobs, owner=owner)
    except ModelError as error:
        raise SpecError(f"{error}.") from None
    except Exception as error:  # a user's Config may raise any exception
        raise Impossible(in_words(owner, error)) from None
    try:
        check(config)
    except Exception as error:
        raise Impossible(in_words(owner, error)) from None
    return dict(vars(config))


def in_words(part: str, error: Exception) -> str:
    """Return why a mixer or an architecture cannot be built, from the error that was raised."""
    if isinstance(error, ModelError):
        return writable(str(error), MOST_OF_A_REASON)
    first_line = words_of(error).partition("\n")[0]
    said = f"{part} cannot be built and called: {first_line}"
    return writable(said, MOST_OF_A_REASON)

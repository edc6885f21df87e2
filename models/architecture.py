"""Define the contract of an architecture: a whole model, built from a `ModelSpec`.

A user's own network needs at least a `Config` with its knobs, `build` and `forward`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import Initialisation, PartSeeds, redraw
from bakeoff.models.interface import (
    ANSWERS,
    CAUSAL,
    INPUT_KINDS,
    INPUTS,
    Answer,
    InputKind,
    Interface,
)
from bakeoff.models.model_spec import ModelSpec, config_from_knobs, late_knob
from bakeoff.models.registry import learns_by_score, mixer_class, mixer_pattern
from bakeoff.models.sublayers import StackConfig, check_stack

Part = Literal["mixer", "position", "dim", "depth"]


LOOP = 20  # approximate operations per token of a recurrent layer that is not one kernel of torch


class Architecture(nn.Module, ABC):
    """A whole model, built from a `ModelSpec`.

    Attributes:
        version: Number to increase whenever a change to the architecture, or to code that it
            shares, changes a result.
        name: Its key in `bakeoff.models.ARCHITECTURES`; a user's own architecture needs none.
        takes: Fields that an ablation may set besides the knobs of `Config`; all are stored in
            `spec`. An architecture with ``mixer`` is built around an interchangeable mixer.
        reads: The kinds that each required input may have; see
            `bakeoff.models.interface.Interface`.
        may_read: The kinds that each optional input may have.
        answers: The answers that a task may ask for.
        is_causal: Whether its mixers are built causal.
        is_stochastic: Whether it also draws random numbers in evaluation mode.
        mask_mode: ``pads_as_tokens`` declares that the model deliberately reads padding.
        starts_from: The answer asked for by the task whose training must come first, for a model
            with parts that it does not train itself; empty if it trains all its parts.
        siblings: For each answer, an architecture whose parts have the same names, so that a
            training may start from it if this architecture cannot give that answer.
        files: Data files that a user's own architecture reads, by their paths relative to the
            folder of its module; their content is part of the ids of trials.
        spec: The specification that the model was built from.
        config: Its knobs, with defaults filled in.
    """

    version: ClassVar[int] = 1
    name: ClassVar[str] = ""
    takes: ClassVar[tuple[Part, ...]] = ()
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {INPUTS: INPUT_KINDS}
    may_read: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {}
    answers: ClassVar[tuple[Answer, ...]] = ANSWERS
    is_causal: ClassVar[bool] = False
    is_stochastic: ClassVar[bool] = False
    mask_mode: ClassVar[Literal["none", "pads_as_tokens"]] = "none"
    starts_from: ClassVar[Answer | Literal[""]] = ""
    siblings: ClassVar[Mapping[Answer, str]] = {}
    files: ClassVar[tuple[str, ...]] = ()

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """An empty set of knobs."""

    def __init__(self, spec: ModelSpec) -> None:
        if reason := self.why_unreadable({name: one.kind for name, one in spec.inputs.items()}):
            raise ModelError(f"{spec.architecture} {reason}")
        sizes = [size for size in ("dim", "depth") if size in self.takes]
        for key in (*sizes, "length", "input_size", "output_size"):
            value = getattr(spec, key)
            if type(value) is not int or value < 1:
                raise ModelError(f"{key}={value!r} is not a whole number of at least 1")
        config = config_from_knobs(self.Config, spec.settings, owner=spec.architecture)
        self.check_config(config)
        super().__init__()
        self.spec = spec
        self.config: Any = config
        seeds = PartSeeds()
        self.build(seeds)
        self.redraw(seeds)

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Raise for a `Config` that no model can have.

        Raises:
            ModelError: A value is not allowed, as in
                ``classifier: dropout=1.0 is not at least 0 and below 1``.
        """

    @classmethod
    def why_not(cls, interface: Interface) -> str:
        """Return why it cannot serve the interface, as the end of a sentence; empty if it can."""
        kinds = {name: each.kind for name, each in interface.inputs.items()}
        if reason := cls.why_unreadable(kinds):
            return reason
        if interface.asks_for == "sequence" and not hasattr(cls, "step"):
            return "has no step, so it cannot write a sequence"
        if interface.asks_for == "drawing" and not hasattr(cls, "draw"):
            return "has no draw, so it cannot draw an image"
        if interface.asks_for in cls.answers:
            return ""
        return f"gives {' or '.join(cls.answers)}, not {interface.asks_for}"

    @classmethod
    def why_unreadable(cls, kinds: Mapping[str, InputKind]) -> str:
        """Return why it cannot read inputs of these kinds; empty if it can."""
        readable = {**cls.may_read, **cls.reads}
        for name in dict.fromkeys((*cls.reads, *kinds)):
            if name not in kinds:
                return f"needs {name}, which are not given"
            if name not in readable:
                return f"takes no {name}"
            if kinds[name] not in readable[name]:
                return f"takes {' or '.join(readable[name])} as {name}, not {kinds[name]}"
        return ""

    @classmethod
    def mixers_of(cls, spec: ModelSpec) -> tuple[str, ...]:
        """Return the names of all mixers of a model; their versions are part of a trial's id."""
        return mixer_pattern(spec.mixer)

    @classmethod
    def sequential_operations(cls, spec: ModelSpec) -> int:
        """Return how many of its own operations run one after another for each token; see `LOOP`.

        The time on a GPU is estimated from this number, since starting a small operation takes as
        long as running it. A recurrent layer of torch counts as one operation; layers of mixers
        are counted elsewhere.
        """
        return 0

    @classmethod
    def can_write(cls) -> bool:
        """Return True if it can write token by token, with `initial_state` and `step`."""
        return hasattr(cls, "step") and not CAUSAL.isdisjoint(cls.answers)

    @classmethod
    def stepping_mixers(cls, spec: ModelSpec) -> tuple[str, ...]:
        """Return the names of the mixers that step while the model writes; by default all."""
        return mixer_pattern(spec.mixer)

    @classmethod
    def why_silent(cls, spec: ModelSpec) -> str:
        """Return why a model cannot write token by token, as a sentence; empty if it can."""
        if not cls.can_write():
            return f"a {spec.architecture} does not write its own next token"
        for mixer in cls.stepping_mixers(spec):
            if not mixer_class(mixer).supports_step:
                return f"{mixer} has no step form"
        return ""

    @classmethod
    def why_blind(cls, spec: ModelSpec) -> str:
        """Return why a model has no `attention_weights`, as a sentence; empty if it has some."""
        if cls.attention_weights is Architecture.attention_weights:
            return f"a {spec.architecture} gives no attention weights of its source"
        return ""

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """Return why a training step cannot be divided, as a sentence; empty if it can.

        Args:
            spec: The model.
            num_parts: Number of parts of a batch, over workers and accumulation steps.
            are_parameters_divided: Whether each worker holds only a part of the parameters, as at
                ZeRO stage 3.
        """
        return ""

    @classmethod
    def learns_by_score(cls, spec: ModelSpec) -> bool:
        """Return True if samples of a model are trained by `bakeoff.models.score_function`."""
        return False

    @classmethod
    def has_flops_formula(cls) -> bool:
        """Return True if it defines `flops`."""
        return cls.flops is not Architecture.flops

    @classmethod
    def has_state_formula(cls) -> bool:
        """Return True if it defines `state_bytes`."""
        return cls.state_bytes is not Architecture.state_bytes

    def redraw(self, seeds: PartSeeds) -> None:
        """Draw parameters again once all exist; by default each part keeps its own draw."""

    @abstractmethod
    def build(self, seeds: PartSeeds) -> None:
        """Create the parts from `self.spec` and `self.config`; the constructor calls this once.

        Args:
            seeds: Random streams by the name of a part, so that a part keeps its initial values
                when other parts change. Parts built outside them draw from torch's generator.

        Raises:
            ModelError: The sizes, the mixer, the position or the knobs are incompatible.
        """

    @abstractmethod
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Compute logits, `[batch, output_size]` or `[batch, time, output_size]`.

        The parameters are the inputs that the model reads, by name, and their masks. If it reads
        ``inputs``, and sequences differ in length, they are:

            inputs: `[batch, time]` integers, or `[batch, time, input_size]` floats; an architecture
                that reads pairs has an axis of two sequences after the batch.
            mask: `[batch, time]`, True for real tokens; left out if all are real. Values at padded
                positions are never read.
        """

    def attention_weights(self, *inputs: Any, **named: Any) -> Tensor:
        """Return the weight of each source token for each target token, `[batch, time, time2]`.

        Row t belongs to the step that reads ``inputs[t]`` and predicts the token after it. A row
        sums to at most one; weights of padded source tokens are zero. Arguments are those of
        `forward`.

        Raises:
            ModelError: The model has no such weights; see `why_blind`.
        """
        raise ModelError(f"{self.spec.architecture} gives no attention weights of its source")

    def patch_grid(self) -> tuple[int, int] | None:
        """Return the rows and columns of its tokens if they are patches of an image, else None."""
        return None

    def source_grid(self) -> tuple[int, int] | None:
        """Return rows and columns of the source in `attention_weights`, or None if not an image."""
        return None

    def flops(self, length: int, batch: int = 1, *others: Any, **named: Any) -> float:
        """Return forward FLOPs by formula, counted as in `Mixer.flops`; a table look-up is 0.

        A model that reads a `context` takes its number of tokens as a third argument,
        ``context_length``.

        Raises:
            ModelError: The model or its mixer has no formula.
        """
        raise ModelError(f"{self.spec.architecture} defines no flops(length, batch)")

    def state_bytes(self, length: int, *others: Any, **named: Any) -> int:
        """Return the bytes of the state of `step` per sequence after `length` tokens, in float32.

        A model that reads a `context` takes its number of tokens as a second argument,
        ``context_length``.

        Raises:
            ModelError: The model or its mixer has no formula or no step form.
        """
        raise ModelError(f"{self.spec.architecture} defines no state_bytes(length)")

    def num_parameters(self) -> int:
        """Return the number of trainable values; tied or shared parameters count once."""
        return sum(parameter.numel() for parameter in self.parameters())


class StackArchitecture(Architecture):
    """An architecture around a stack of blocks with an interchangeable mixer."""

    takes: ClassVar[tuple[Part, ...]] = ("mixer", "position", "dim", "depth")

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        """Knobs of the stack; some architectures add knobs of their own.

        Attributes:
            initialisation: Initialisation of all linear maps; see `bakeoff.models.initialisation`.
            position_mode: How an absolute position p is combined with its token x: `added`, or
                `concatenated`, a linear map of [x; p] back to dim. Adding is the special case of a
                map of two identity blocks.
            position_std: Standard deviation of the initial learned absolute positions. ViT and
                DeiT use 0.02; `initialisation` applies to linear maps only, not to positions.
        """

        initialisation: Initialisation = "scaled_normal"
        position_mode: Literal["added", "concatenated"] = "added"
        position_std: float = late_knob(1.0)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        if self.learns_by_score(spec):
            from bakeoff.models.score_function import return_choices

            return_choices(self)

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Raise for knobs of the stack, or a `position_std`, that no model can have."""
        check_stack(config, owner=cls.name)
        if config.position_std <= 0:
            raise ModelError(f"{cls.name}: position_std={config.position_std} is not above 0")

    @classmethod
    def learns_by_score(cls, spec: ModelSpec) -> bool:
        """Return True if samples of one of its mixers are trained by the score function."""
        return learns_by_score(spec, cls.mixers_of(spec))

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """Return why a training step cannot be divided, as a sentence; empty if it can."""
        config = config_from_knobs(cls.Config, spec.settings, owner=spec.architecture)
        if num_parts > 1 and config.norm_kind == "batch":
            return f"norm_kind='batch' is over a whole batch, which would be cut into {num_parts}"
        if are_parameters_divided and config.residual == "reversible":
            return "residual='reversible' needs all parameters in its backward pass, not zero=3"
        if num_parts > 1 and cls.learns_by_score(spec):
            return (
                "estimator='reinforce' has one average cost of whole batches, and each would be "
                f"cut into {num_parts}"
            )
        return ""

    def redraw(self, seeds: PartSeeds) -> None:
        """Draw the linear maps again, with the initialisation of the config."""
        redraw(self, self.config.initialisation, seeds)

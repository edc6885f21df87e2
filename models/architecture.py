"""Define the contract of an architecture: a whole model, built from a `ModelSpec`.

The least that a network of one's own needs: a `Config` with its knobs, `build`, and `forward`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from models.errors import ModelError
from models.initialisation import Initialisation, PartSeeds, redraw
from models.interface import ANSWERS, CAUSAL, INPUT_KINDS, INPUTS, Answer, InputKind, Interface
from models.model_spec import ModelSpec, config_from_knobs, late_knob
from models.registry import learns_by_score, mixer_class, mixer_pattern
from models.sublayers import StackConfig, check_stack

Part = Literal["mixer", "position", "dim", "depth"]


LOOP = 20  # operations of a recurrent layer that is no kernel of torch, for each token; roughly


class Architecture(nn.Module, ABC):
    """A whole model, built from a `ModelSpec`.

    Attributes:
        version: Goes up whenever a change to it, or to what it shares, moves a number.
        name: Its key in `models.ARCHITECTURES`; a user's own needs none.
        takes: What an ablation may set besides the knobs of `Config`; all of it stands in `spec`.
            With ``mixer`` it has a hole for one.
        reads: The kinds that it reads, by input; see `models.interface.Interface`.
        may_read: Likewise, of inputs that a task may give it.
        answers: What it can be asked for.
        is_causal: Whether its mixers are built causal.
        is_stochastic: Whether it draws random numbers in evaluation too.
        mask_mode: ``pads_as_tokens`` declares that padding is meant to be read.
        starts_from: What the task must ask for on which a training starts, where the model has
            parts that it does not train itself; empty where it trains all of them.
        siblings: By what they can be asked for, architectures whose parts have the names of its
            own: those on which a training may start where it cannot be asked for that itself.
        files: Data files that a user's own architecture reads, by their paths from the folder of
            its module; their content is part of the ids of trials.
        spec: What it was built from.
        config: Its knobs, defaults filled in.
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
        """No knobs."""

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
        """Refuse a `Config` that no model can have.

        Raises:
            ModelError: as ``classifier: dropout=1.0 is not at least 0 and below 1``.
        """

    @classmethod
    def why_not(cls, interface: Interface) -> str:
        """Why it cannot serve the interface, as the end of a sentence; empty where it can."""
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
        """Why it cannot read inputs of these kinds; empty where it can."""
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
        """The names of all mixers that a model has, whose versions are part of a trial's id."""
        return mixer_pattern(spec.mixer)

    @classmethod
    def sequential_operations(cls, spec: ModelSpec) -> int:
        """Operations of its own, started one after another, that each token waits for; see `LOOP`.

        By this the time on a GPU is estimated, where small ones take as long to start as to run. A
        recurrent layer of torch is one; layers of mixers are counted elsewhere.
        """
        return 0

    @classmethod
    def can_write(cls) -> bool:
        """Whether it can write, token by token, by `initial_state` and `step`."""
        return hasattr(cls, "step") and not CAUSAL.isdisjoint(cls.answers)

    @classmethod
    def stepping_mixers(cls, spec: ModelSpec) -> tuple[str, ...]:
        """The names of those mixers that step when the model writes; by default all."""
        return mixer_pattern(spec.mixer)

    @classmethod
    def why_silent(cls, spec: ModelSpec) -> str:
        """Why a model cannot write token by token, in a sentence; empty where it can."""
        if not cls.can_write():
            return f"a {spec.architecture} does not write its own next token"
        for mixer in cls.stepping_mixers(spec):
            if not mixer_class(mixer).supports_step:
                return f"{mixer} has no step form"
        return ""

    @classmethod
    def why_blind(cls, spec: ModelSpec) -> str:
        """Why a model has no `attention_weights`, in a sentence; empty where it has some."""
        if cls.attention_weights is Architecture.attention_weights:
            return f"a {spec.architecture} gives no attention weights of its source"
        return ""

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """Why a training step of a model cannot be divided, in a sentence; empty where it can.

        Args:
            spec: The model.
            num_parts: Into which a batch is cut, by workers and accumulation.
            are_parameters_divided: Whether no worker has all parameters, as at ZeRO stage 3.
        """
        return ""

    @classmethod
    def learns_by_score(cls, spec: ModelSpec) -> bool:
        """Whether what a model samples learns by `models.score_function`."""
        return False

    @classmethod
    def has_flops_formula(cls) -> bool:
        """Whether it defines `flops`."""
        return cls.flops is not Architecture.flops

    @classmethod
    def has_state_formula(cls) -> bool:
        """Whether it defines `state_bytes`."""
        return cls.state_bytes is not Architecture.state_bytes

    def redraw(self, seeds: PartSeeds) -> None:
        """Draw parameters anew once all are there; here each part keeps what it drew itself."""

    @abstractmethod
    def build(self, seeds: PartSeeds) -> None:
        """Make the parts by `self.spec` and `self.config`; called once, by the constructor.

        Args:
            seeds: Gives each part a stream of random numbers by its name, so that parts keep their
                first numbers where others change; without it torch's generator is drawn from.

        Raises:
            ModelError: the sizes, the mixer, the position or the knobs do not go together.
        """

    @abstractmethod
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Logits: `[batch, output_size]`, or `[batch, time, output_size]`.

        Its parameters are the inputs that it reads, by name, and their masks. Where ``inputs`` are
        read and sequences differ in length, they are:

            inputs: `[batch, time]` integers, or `[batch, time, input_size]` floats; with an axis
                of two sequences after the batch where an architecture reads pairs.
            mask: `[batch, time]`, True where a real token stands; left out where all are real.
                What stands at padded positions is never read.
        """

    def attention_weights(self, *inputs: Any, **named: Any) -> Tensor:
        """How much each token of a target takes from each of its source, `[batch, time, time2]`.

        Row t is of the step that reads ``inputs[t]`` and predicts the token after it. A row sums to
        at most one, and is zero at padding of the source. Arguments are those of `forward`.

        Raises:
            ModelError: it has none; see `why_blind`.
        """
        raise ModelError(f"{self.spec.architecture} gives no attention weights of its source")

    def patch_grid(self) -> tuple[int, int] | None:
        """Rows and columns of its tokens, where they are patches of an image; else None."""
        return None

    def source_grid(self) -> tuple[int, int] | None:
        """Rows and columns of its source, as `attention_weights` has them, where it is an image."""
        return None

    def flops(self, length: int, batch: int = 1, *others: Any, **named: Any) -> float:
        """Forward FLOPs by formula, counted as in `Mixer.flops`; a table look-up is 0.

        One that reads a `context` takes a third argument, ``context_length``: its tokens.

        Raises:
            ModelError: there is no formula, of it or of its mixer.
        """
        raise ModelError(f"{self.spec.architecture} defines no flops(length, batch)")

    def state_bytes(self, length: int, *others: Any, **named: Any) -> int:
        """Bytes of the state of `step` per sequence after `length` tokens, in float32, by formula.

        One that reads a `context` takes a second argument, ``context_length``: its tokens.

        Raises:
            ModelError: there is no formula, or no step form, of it or of its mixer.
        """
        raise ModelError(f"{self.spec.architecture} defines no state_bytes(length)")

    def num_parameters(self) -> int:
        """Trainable numbers; what is tied or shared between layers counts once."""
        return sum(parameter.numel() for parameter in self.parameters())


class StackArchitecture(Architecture):
    """An architecture around a stack of blocks, with a hole for a mixer."""

    takes: ClassVar[tuple[Part, ...]] = ("mixer", "position", "dim", "depth")

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        """Knobs of the stack; some architectures add knobs of their own.

        Attributes:
            initialisation: Of all linear maps; see `models.initialisation`.
            position_mode: How an absolute position p meets its token x: `added`, or
                `concatenated`, a linear map of [x; p] back to dim, of which adding is the case of
                two identity blocks.
            position_std: Standard deviation of what learned absolute positions start from. ViT and
                DeiT take 0.02; `initialisation` draws linear maps alone, and leaves positions.
        """

        initialisation: Initialisation = "scaled_normal"
        position_mode: Literal["added", "concatenated"] = "added"
        position_std: float = late_knob(1.0)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        if self.learns_by_score(spec):
            from models.score_function import return_choices

            return_choices(self)

    @classmethod
    def check_config(cls, config: Any) -> None:
        """See `Architecture.check_config`."""
        check_stack(config, owner=cls.name)
        if config.position_std <= 0:
            raise ModelError(f"{cls.name}: position_std={config.position_std} is not above 0")

    @classmethod
    def learns_by_score(cls, spec: ModelSpec) -> bool:
        """See `Architecture.learns_by_score`."""
        return learns_by_score(spec, cls.mixers_of(spec))

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """See `Architecture.why_whole`."""
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
        """Draw the linear maps anew, by the initialisation that the config asks for."""
        redraw(self, self.config.initialisation, seeds)

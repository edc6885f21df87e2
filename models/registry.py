"""Tables of mixers, positional encodings and architectures, and functions that build them by name.

The tables have one line per entry. An entry is imported on first use, so reading the tables imports
no mixer and no torch. To add a mixer, write its file and add its line; the tests of the contract
then cover it. Wherever a name is expected, a user's own class can be given as
``package.module:Class``.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from bakeoff.models.errors import ModelError, did_you_mean
from bakeoff.models.model_spec import Knob, ModelSpec, config_from_knobs

if TYPE_CHECKING:
    from bakeoff.models.architecture import Architecture
    from bakeoff.models.mixer import Mixer
    from bakeoff.models.positions.absolute import Position
    from bakeoff.models.positions.relative import RelativePosition

MIXERS: dict[str, str] = {
    # attention
    "attention": "bakeoff.models.mixers.attention:Attention",
    "plain_attention": "bakeoff.models.mixers.plain_attention:PlainAttention",
    "local_attention": "bakeoff.models.mixers.local_attention:LocalAttention",
    "grouped_query": "bakeoff.models.mixers.attentions.grouped_query:GroupedQueryAttention",
    "latent_attention": "bakeoff.models.mixers.attentions.latent_attention:LatentAttention",
    "differential_attention": (
        "bakeoff.models.mixers.attentions.differential_attention:DifferentialAttention"
    ),
    "prefix_attention": "bakeoff.models.mixers.attentions.prefix_attention:PrefixAttention",
    "sink_attention": "bakeoff.models.mixers.attentions.sink_attention:SinkAttention",
    "hard_attention": "bakeoff.models.mixers.attentions.hard_attention:HardAttention",
    "window_attention": "bakeoff.models.mixers.attentions.window_attention:WindowAttention",
    "talking_heads": "bakeoff.models.mixers.attentions.talking_heads:TalkingHeads",
    "outlook_attention": "bakeoff.models.mixers.attentions.outlook_attention:OutlookAttention",
    # recurrent
    "rnn": "bakeoff.models.mixers.rnn:RNN",
    "gru": "bakeoff.models.mixers.gru:GRU",
    "lstm": "bakeoff.models.mixers.lstm:LSTM",
    # convolution
    "conv": "bakeoff.models.mixers.conv:Convolution",
    "dilated_conv": "bakeoff.models.mixers.dilated_conv:DilatedConvolution",
    "separable_conv": "bakeoff.models.mixers.separable_conv:SeparableConvolution",
    "gated_conv": "bakeoff.models.mixers.gated_conv:GatedConvolution",
    "grid_conv": "bakeoff.models.mixers.grid_conv:GridConvolution",
    "hyena": "bakeoff.models.mixers.hyena:Hyena",
    # linear attention
    "linformer": "bakeoff.models.mixers.linformer:Linformer",
    "performer": "bakeoff.models.mixers.performer:Performer",
    "linear_transformer": "bakeoff.models.mixers.linear_transformer:LinearTransformer",
    # sparse attention
    "lsh_attention": "bakeoff.models.mixers.sparse.lsh_attention:LSHAttention",
    "bigbird": "bakeoff.models.mixers.sparse.bigbird:BigBird",
    "nystromformer": "bakeoff.models.mixers.sparse.nystromformer:Nystromformer",
    "strided_attention": "bakeoff.models.mixers.sparse.strided_attention:StridedAttention",
    "sinkhorn": "bakeoff.models.mixers.sparse.sinkhorn:SinkhornAttention",
    # matrix state
    "retention": "bakeoff.models.mixers.states.retention:Retention",
    "gla": "bakeoff.models.mixers.states.gla:GatedLinearAttention",
    "mamba2": "bakeoff.models.mixers.states.mamba2:Mamba2",
    "delta_net": "bakeoff.models.mixers.states.delta_net:DeltaNet",
    "gated_delta": "bakeoff.models.mixers.states.gated_delta:GatedDelta",
    "kimi_delta": "bakeoff.models.mixers.states.kimi_delta:KimiDelta",
    "rwkv7": "bakeoff.models.mixers.states.rwkv7:RWKV7",
    # state space
    "s4d": "bakeoff.models.mixers.states.s4d:S4D",
    # fourier
    "fnet": "bakeoff.models.mixers.fnet:FNet",
    # token mixing
    "mlp_mixer": "bakeoff.models.mixers.mlp_mixer:MLPMixer",
    "synthesizer": "bakeoff.models.mixers.sparse.synthesizer:Synthesizer",
}

POSITIONS: dict[str, str] = {
    # absolute: combined with the embeddings, for any mixer
    "none": "bakeoff.models.positions.absolute:NoPosition",
    "sinusoidal": "bakeoff.models.positions.absolute:SinusoidalPosition",
    "learned": "bakeoff.models.positions.absolute:LearnedPosition",
    "sinusoidal_2d": "bakeoff.models.positions.absolute:SinusoidalGridPosition",
    "learned_2d": "bakeoff.models.positions.absolute:LearnedGridPosition",
    # relative: act on scores, in mixers that have scores
    "shaw": "bakeoff.models.positions.relative:ShawPosition",
    "t5": "bakeoff.models.positions.relative:T5Position",
    "rope": "bakeoff.models.positions.relative:RotaryPosition",
    "alibi": "bakeoff.models.positions.relative:ALiBiPosition",
}

ARCHITECTURES: dict[str, str] = {
    # one sequence in, one answer for each token
    "language_model": "bakeoff.models.architectures.language_model:LanguageModel",
    "bert": "bakeoff.models.architectures.bert:Bert",
    "bert_left_to_right": "bakeoff.models.architectures.bert:BertLeftToRight",
    "bert_prefix": "bakeoff.models.architectures.bert:BertPrefix",
    "bert_classifier": "bakeoff.models.architectures.bert:BertClassifier",
    "masked_language_model": "bakeoff.models.architectures.masked_language_model:MaskedLanguageModel",  # noqa: E501
    "tagger": "bakeoff.models.architectures.tagger:Tagger",
    # one sequence in, one answer for each sequence
    "classifier": "bakeoff.models.architectures.classifier:Classifier",
    "perceiver": "bakeoff.models.architectures.perceiver:Perceiver",
    "shared_workspace": "bakeoff.models.architectures.shared_workspace:SharedWorkspace",
    # a sequence in, a sequence out
    "translator": "bakeoff.models.architectures.translator:Translator",
    "seq2seq": "bakeoff.models.architectures.seq2seq:Seq2Seq",
    "attentive_seq2seq": "bakeoff.models.architectures.attentive_seq2seq:AttentiveSeq2Seq",
    "conv_seq2seq": "bakeoff.models.architectures.conv_seq2seq:ConvSeq2Seq",
    "bytenet": "bakeoff.models.architectures.bytenet:ByteNet",
    # an image and words in, words or a class out
    "captioner": "bakeoff.models.architectures.multimodal.captioner:Captioner",
    "show_attend_tell": "bakeoff.models.architectures.multimodal.show_attend_tell:ShowAttendTell",
    "question_answerer": "bakeoff.models.architectures.multimodal.question_answerer:QuestionAnswerer",  # noqa: E501
    "contrastive": "bakeoff.models.architectures.multimodal.contrastive:Contrastive",
    # an image in, an image out, by tokens; or words in, an image out
    "discrete_vae": "bakeoff.models.architectures.multimodal.discrete_vae:DiscreteVae",
    "image_tokens": "bakeoff.models.architectures.multimodal.image_tokens:ImageTokens",
    # an image in, one answer
    "vit": "bakeoff.models.architectures.vit:ViT",
    "resnet": "bakeoff.models.architectures.resnet:ResNet",
    "swin": "bakeoff.models.architectures.swin:Swin",
    "swin_v2": "bakeoff.models.architectures.swin_v2:SwinV2",
    "cait": "bakeoff.models.architectures.cait:CaiT",
    "volo": "bakeoff.models.architectures.volo:VOLO",
    "deit": "bakeoff.models.architectures.deit:DeiT",
    "levit": "bakeoff.models.architectures.levit:LeViT",
    # states, actions and desired returns in, the next action out
    "decision_transformer": (
        "bakeoff.models.architectures.decisions.decision_transformer:DecisionTransformer"
    ),
    # two sequences in, one answer for each pair
    "pair_classifier": "bakeoff.models.architectures.pair_classifier:PairClassifier",
}

# The architecture of a task that names none, by what the task asks for.
USUAL_ARCHITECTURES: dict[str, str] = {
    "class": "classifier",
    "number": "classifier",
    "symbols": "tagger",
    "next_symbols": "language_model",
    "sequence": "translator",
    "pair": "pair_classifier",
}

# For measuring a mixer alone, without a task: vectors in, vectors out.
BARE_ARCHITECTURES: dict[str, str] = {
    "mixer_alone": "bakeoff.models.architectures.mixer_alone:MixerAlone",
    "causal_mixer_alone": "bakeoff.models.architectures.mixer_alone:CausalMixerAlone",
}


def mixer_class(name: str) -> type[Mixer]:
    """Import and return the class of a mixer.

    Args:
        name: A key of `MIXERS`, or a user's own class as ``package.module:Class``.

    Raises:
        ModelError: The name is unknown, its module fails to import, or the class is not a mixer.
    """
    mixer = importlib.import_module("bakeoff.models.mixer").Mixer
    found: type[Mixer] = class_named("mixer", MIXERS, name, mixer)
    return found


def mixer_pattern(text: str) -> tuple[str, ...]:
    """Return the names of mixers that repeat over the layers of a stack, from the bottom upwards.

    Args:
        text: Names joined by ``+``, each with its number of layers if it has several, as in
            ``fnet*3+attention``; a single name is a pattern of one, an empty text of none.

    Raises:
        ModelError: The text is malformed.
    """
    names: list[str] = []
    for part in text.split("+") if text else ():
        name, _, count = part.partition("*")
        if not re.fullmatch(r"[^*]+(\*[1-9][0-9]*)?", part):
            raise ModelError(
                f"mixer {text!r}: {part!r} is neither a name nor NAME*COUNT, as in fnet*3+attention"
            )
        names += [name] * int(count or 1)
    return tuple(names)


def position_class(name: str) -> type[Position] | type[RelativePosition]:
    """Import and return the class of a position encoding, absolute or relative."""
    absolute = importlib.import_module("bakeoff.models.positions.absolute").Position
    relative = importlib.import_module("bakeoff.models.positions.relative").RelativePosition
    found: type[Position] | type[RelativePosition] = class_named(
        "position", POSITIONS, name, absolute, relative
    )
    return found


def relative_position(name: str) -> type[RelativePosition] | None:
    """Return the class of a relative position encoding, or None if it is an absolute one."""
    found = position_class(name)
    absolute = importlib.import_module("bakeoff.models.positions.absolute").Position
    return None if issubclass(found, absolute) else cast("type[RelativePosition]", found)


def architecture_class(name: str) -> type[Architecture]:
    """Import and return the class of an architecture, a shipped one or a user's own."""
    architecture = importlib.import_module("bakeoff.models.architecture").Architecture
    table = BARE_ARCHITECTURES if name in BARE_ARCHITECTURES else ARCHITECTURES
    found: type[Architecture] = class_named("architecture", table, name, architecture)
    return found


def knobs_of_mixer(name: str) -> frozenset[str]:
    """Return the names of the fields of a mixer's `Config`."""
    return frozenset(inspect.signature(mixer_class(name).Config).parameters)


def learns_by_score(spec: ModelSpec, mixers: Iterable[str]) -> bool:
    """Return True if one of these mixers draws samples for `bakeoff.models.score_function`."""
    for name in mixers:
        kind, knobs = mixer_class(name), knobs_of_mixer(name)
        own = {key: value for key, value in spec.knobs.items() if key in knobs}
        if kind.learns_by_score(kind.Config(**own)):
            return True
    return False


def mixer_config(
    name: str, *, dim: int, heads: int | None = None, knobs: Mapping[str, Knob]
) -> Any:
    """Return a mixer's frozen `Config`, with every knob checked and defaults filled in.

    Args:
        name: A key of `MIXERS`, or a user's own class as ``package.module:Class``.
        dim: Width of the mixer; the config is checked against it.
        heads: Number of heads; ignored if the `Config` has no such field, so that a baseline with
            heads can be compared with mixers that have none.
        knobs: Fields of the `Config`.

    Raises:
        ModelError: A knob is unknown, a value is not allowed, `heads` does not divide `dim`, etc.
    """
    mixer = mixer_class(name)
    given = dict(knobs)
    has_heads = "heads" in knobs_of_mixer(name)
    if heads is not None and has_heads and given.setdefault("heads", heads) != heads:
        raise ModelError(f"{name}: heads={heads} and the knob heads={given['heads']} differ")
    config = config_from_knobs(mixer.Config, given, owner=name)
    mixer.check_config(config, dim=dim)
    return config


def build_mixer(
    name: str,
    dim: int = 64,
    heads: int | None = None,
    max_length: int = 256,
    is_causal: bool = False,
    position: str | None = None,
    **knobs: Knob,
) -> Mixer:
    """Build one mixer by name.

    Args:
        name: A key of `MIXERS`, or a user's own class as ``package.module:Class``.
        dim: Width of the tokens, in and out.
        heads: Number of heads, for mixers that have heads, or None for the default of 4.
        max_length: Length of the longest sequence, in tokens.
        is_causal: Whether a token attends only to itself and earlier ones.
        position: A relative encoding, which acts inside the mixer; architectures combine absolute
            ones with the embeddings.
        knobs: Fields of the mixer's `Config`.

    Raises:
        ModelError: The mixer cannot be built; the message is one sentence.
    """
    relative = None if position is None else relative_position(position)
    if position is not None and relative is None:
        raise ModelError(
            f"position={position!r} does not act inside a mixer: absolute encodings are joined "
            "to the embeddings by the architecture"
        )
    config = mixer_config(name, dim=dim, heads=heads, knobs=knobs)
    return construct_mixer(
        name, dim=dim, max_length=max_length, is_causal=is_causal, config=config, position=relative
    )


def construct_mixer(
    name: str,
    *,
    dim: int,
    max_length: int,
    is_causal: bool,
    config: Any,
    position: type[RelativePosition] | None,
) -> Mixer:
    """Build a mixer from its checked config; `position` is passed on only if it is not None.

    Raises:
        ModelError: The mixer does not support a relative position (the message gives the reason),
            or its constructor raises.
    """
    mixer = mixer_class(name)
    sizes = {"dim": dim, "max_length": max_length}
    if position is None:
        return mixer(**sizes, is_causal=is_causal, config=config)
    if not mixer.supports_relative:
        raise ModelError(
            f"{name} takes no relative position ({position.name}): {mixer.why_not_relative}"
        )
    relative: Mixer = mixer(**sizes, is_causal=is_causal, config=config, position=position)  # type: ignore[call-arg]
    return relative


def build_model(spec: ModelSpec) -> Architecture:
    """Build a whole model, of the architecture that the spec names.

    Draws one number from torch's global generator; see `bakeoff.models.initialisation`.

    Raises:
        ModelError: The model cannot be built; the message is one sentence.
    """
    return architecture_class(spec.architecture)(spec)


_LARGE = 2**16  # elements of a computed table, such as the sines of positions


def build_shapes(spec: ModelSpec) -> Architecture:
    """Build a model like `build_model`, without its values; costs milliseconds and no memory.

    Parameters that are not drawn take no memory, but computed tables do, so a large model is built
    on the meta device. A small one is not, since the first arithmetic there loads torch's compiler,
    which takes a second. A model with a user's own class is built with values, since its code may
    not work on tensors without data.

    Raises:
        ModelError: The model cannot be built; see `build_model`.
    """
    torch = importlib.import_module("torch")
    draws = importlib.import_module("bakeoff.models.initialisation")
    with torch.random.fork_rng(devices=[]):
        if spec.is_own:
            return build_model(spec)
        is_large = max(spec.dim, spec.length) * spec.dim > _LARGE
        with torch.device("meta" if is_large else "cpu"), draws.NothingDrawn():
            return build_model(spec)


def class_named(kind: str, table: Mapping[str, str], name: str, *bases: type[Any]) -> Any:
    """Return the class for a name of `table` or for ``package.module:Class``.

    Args:
        kind: The kind of class in the error message, for example ``mixer``.
        table: The shipped classes.
        name: The name of the class.
        bases: The class must be a subclass of one of these.

    Raises:
        ModelError: The name is unknown, its module fails to import, or the class has another base
            or is abstract.
    """
    if name not in table and ":" not in name:
        near = did_you_mean(name, table)
        lists = kind in ("mixer", "architecture")
        where = f"`bakeoff list --{kind}s` shows all" if lists else "docs/catalogue.md lists all"
        known = where if near else f"known: {', '.join(table)}"
        raise ModelError(
            f"unknown {kind} {name!r}{near} ({known}; your own is written package.module:Class)"
        )
    found = _load(kind, table.get(name, name))
    if not (inspect.isclass(found) and issubclass(found, bases)):
        allowed = " or ".join(f"{base.__module__}.{base.__qualname__}" for base in bases)
        raise ModelError(f"{kind} {name!r} is not a subclass of {allowed}")
    if inspect.isabstract(found):
        missing = ", ".join(sorted(vars(found)["__abstractmethods__"]))
        raise ModelError(f"{kind} {name!r} does not define {missing}")
    return found


def _load(kind: str, path: str) -> Any:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", path):
        raise ModelError(f"{kind} {path!r} is not written package.module:Class")
    module_name, _, class_name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may raise anything
        raise ModelError(
            f"{kind} {path!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if class_name not in vars(module):
        classes = [key for key, value in vars(module).items() if inspect.isclass(value)]
        close = did_you_mean(class_name, classes)
        raise ModelError(f"{kind} {path!r}: the module has no {class_name!r}{close}")
    return vars(module)[class_name]

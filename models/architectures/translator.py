"""An encoder-decoder: a source in, a target out, token by token.

Paper: Vaswani et al. 2017, "Attention Is All You Need" (arXiv:1706.03762), section 3.
Encoder: embedding + position -> depth x (mixer, feed-forward). Decoder: embedding + position ->
    depth x (causal mixer, context mixer over the encoder's outputs, feed-forward) -> logits.
Defaults are the paper's: a norm after each sum, ReLU, one matrix for both embeddings and the
    output, multiplied by sqrt(dim) at the inputs only. With norm_placement="pre" each stack ends in
    a norm.
Departures: only feed-forwards have biases, unless the mixer has a knob for them; dropout is 0 by
    default.
Padding: padded tokens of the source are hidden from every mixer that hides padding. If the source
    is all padding, the context mixer gives zeros.

Each mixer of the model is free to choose: the encoder's is bidirectional, the decoder's is causal,
and the context mixer needs `supports_context`. In training the decoder reads the target, shifted by
a start symbol (teacher forcing); in generation it reads its own output, see
`bakeoff.models.decoding`. The step form equals the parallel one token by token; the source is
encoded, and its keys and values are computed, once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor, nn

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.architectures.encoder_decoder import EncoderDecoder
from bakeoff.models.architectures.language_model import DecodingState
from bakeoff.models.embedding import TokenEmbedding
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds, scaled_normal
from bakeoff.models.mixer import Mixer, State
from bakeoff.models.model_spec import Knob, ModelSpec, config_from_knobs
from bakeoff.models.registry import (
    construct_mixer,
    knobs_of_mixer,
    mixer_class,
    mixer_config,
    mixer_pattern,
)
from bakeoff.models.stack import Trunk


class Translator(EncoderDecoder, StackArchitecture):
    """Target `[batch, time]` and source `[batch, time2]` -> logits `[batch, time, output_size]`."""

    name = "translator"
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(StackArchitecture.Config):
        """Knobs of a translator; two of every stack's knobs have the paper's value.

        Attributes:
            norm_placement: See `StackConfig`.
            feed_forward: See `StackConfig`.
            tied: Matrices that share the weights of the target's embedding: `all` is the source's
                embedding and the output (section 3.4 of the paper; both then have one vocabulary),
                `output` is the output (Press and Wolf 2017, arXiv:1608.05859), `none` is nothing.
            decoder_mixer: The decoder's own mixer, or None for the encoder's, built causal. It gets
                those of the encoder mixer's knobs that it has.
            context_mixer: Mixer of the source into the decoder; it gets knobs in the same way.
            context_heads: Number of its heads, or None for the knob of the mixer, or its default.
        """

        norm_placement: Literal["pre", "post", "res_post"] = "post"
        feed_forward: Literal["gelu", "gelu_tanh", "relu", "glu", "swiglu", "none"] = "relu"
        tied: Literal["all", "output", "none"] = "all"
        decoder_mixer: str | None = None
        context_mixer: str = "attention"
        context_heads: int | None = None

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        for key in ("decoder_mixer", "context_mixer"):
            if ":" in (getattr(config, key) or ""):
                raise ModelError(f"{cls.name}: {key} names a shipped mixer; give your own as mixer")

    @classmethod
    def mixers_of(cls, spec: ModelSpec) -> tuple[str, ...]:
        """Return the names of all mixers of the model."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        return (
            *mixer_pattern(spec.mixer),
            *mixer_pattern(config.decoder_mixer or ""),
            *mixer_pattern(config.context_mixer),
        )

    @classmethod
    def stepping_mixers(cls, spec: ModelSpec) -> tuple[str, ...]:
        """Return the names of the decoder's own mixers."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        return mixer_pattern(config.decoder_mixer or spec.mixer)

    @classmethod
    def why_blind(cls, spec: ModelSpec) -> str:
        """Return why the context mixer gives no attention weights; empty if it does."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        if mixer_class(config.context_mixer).attention_weights is Mixer.attention_weights:
            return f"context_mixer={config.context_mixer!r} gives no attention weights"
        return super().why_blind(spec)

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec = self.spec
        self.check_tie()
        with seeds.part("embedding"):
            self.embedding = TokenEmbedding(spec.input_size, spec.dim)
        self.build_encoder(seeds)
        pattern = self.config.decoder_mixer or spec.mixer
        decoder = replace(spec, mixer=pattern, knobs=self._knobs_of(pattern))
        self.decoder = Trunk(
            decoder,
            self.config,
            seeds.within("decoder"),
            is_causal=True,
            context_mixer=self.build_context_mixer,
        )
        if self.config.tied == "none":
            with seeds.part("head"):
                self.head = nn.Linear(spec.dim, spec.output_size, bias=False)
                scaled_normal(self.head)

    def build_encoder(self, seeds: PartSeeds) -> None:
        """Build the encoder of the source."""
        source = self.spec.others["context"]
        if self.config.tied != "all":
            with seeds.part("source_embedding"):
                self.source_embedding = TokenEmbedding(source.size, self.spec.dim)
        spec = replace(self.spec, length=source.length)
        self.encoder: Any = Trunk(spec, self.config, seeds.within("encoder"), is_causal=False)

    def check_tie(self) -> None:
        """Raise if vocabularies cannot share one matrix.

        Raises:
            ModelError: Their sizes differ.
        """
        sizes = {"input_size": self.spec.input_size, "output_size": self.spec.output_size}
        if self.config.tied == "all":
            sizes["the size of context"] = self.spec.others["context"].size
        if self.config.tied != "none" and len(set(sizes.values())) > 1:
            said = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise ModelError(
                f"{self.name}: tied={self.config.tied!r} needs equal sizes, not {said}"
            )

    def build_context_mixer(self) -> Mixer:
        """Return a new mixer of the source; each decoder block calls this once.

        Raises:
            ModelError: The mixer takes no context, or rejects its knobs.
        """
        name = self.config.context_mixer
        if not mixer_class(name).supports_context:
            raise ModelError(f"{self.name}: context_mixer={name!r} takes no context")
        knobs = self._knobs_of(name)
        if self.config.context_heads is not None:
            knobs["heads"] = self.config.context_heads
        lengths = self.spec.length, self.longest_source
        dim = self.spec.dim
        return construct_mixer(
            name,
            dim=dim,
            max_length=max(lengths),
            is_causal=False,
            config=mixer_config(name, dim=dim, knobs=knobs),
            position=None,
        )

    def _knobs_of(self, pattern: str) -> dict[str, Knob]:
        """Return the model's knobs that one of these mixers has."""
        owned = {key for name in mixer_pattern(pattern) for key in knobs_of_mixer(name)}
        return {key: value for key, value in self.spec.knobs.items() if key in owned}

    def decoded(
        self, inputs: Tensor, mask: Tensor | None, context: Tensor, context_mask: Tensor | None
    ) -> Tensor:
        """Return the logits, `[batch, time, output_size]`."""
        encoded = self.encoded(context, context_mask)
        target = self.embedding(inputs, mask)
        return self._logits(self.decoder(target, mask, encoded, context_mask))

    def attention_weights(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the mean over heads of the last layer but one, `[batch, time, time2]`.

        A model of one layer gives its own weights. In a model of six layers, the fifth agrees best
        with human alignments (Garg et al. 2019, arXiv:1909.02074, section 4).
        """
        mixer = self.decoder.context_mixers()[-2:][0]
        calls: list[Any] = []
        hook = mixer.register_forward_pre_hook(lambda _, arguments: calls.append(arguments))
        try:
            self(inputs, mask, context, context_mask)
        finally:
            hook.remove()
        return mixer.attention_weights(*calls[0]).mean(dim=1)

    def encode(self, context: Tensor, context_mask: Tensor | None = None) -> tuple[State, ...]:
        """Return what each decoder layer needs of the source; see `forward`."""
        return self.decoder.prepare(self.encoded(context, context_mask), context_mask)

    def initial_state(self, batch: int, encoded: tuple[State, ...]) -> DecodingState:
        """Return the state before the first token of each target.

        Args:
            batch: Number of sequences.
            encoded: Their sources, from `encode`.

        Raises:
            ModelError: The decoder's mixer has no step form.
        """
        layers = self.decoder.initial_states(batch)
        return DecodingState(num_tokens=0, layers=layers, context=encoded)

    def step(self, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        """Read one token `[batch]` of each target; see `LanguageModel.step`."""
        hidden, layers = self.decoder.step(
            self.embedding(tokens), state.num_tokens, state.layers, state.context
        )
        after = replace(state, num_tokens=state.num_tokens + 1, layers=layers)
        return self._logits(hidden), after

    def encoded(self, context: Tensor, context_mask: Tensor | None) -> Tensor:
        """Return the vectors of a source, `[batch, time2, dim]`."""
        embedding = self.embedding if self.config.tied == "all" else self.source_embedding
        encoded: Tensor = self.encoder(embedding(context, context_mask), context_mask)
        return encoded

    def _logits(self, hidden: Tensor) -> Tensor:
        matrix = self.head if self.config.tied == "none" else self.embedding.table
        return nn.functional.linear(hidden, matrix.weight)

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs; the source has its maximum length unless one is given."""
        source = self.source_length(context_length)
        encoder: float = self.encoder.flops(source, batch)
        return encoder + self.flops_of_decoder(length, batch, source)

    def flops_of_decoder(self, length: int, batch: int, source: int) -> float:
        """Return the FLOPs of blocks and output matrix for a source of `source` vectors."""
        head = batch * length * 2 * self.spec.dim * self.spec.output_size
        return self.decoder.flops(length, batch, source) + head

    def state_bytes(self, length: int, context_length: int | None = None) -> int:
        """Return the bytes of the decoder's state, its prepared keys and values included."""
        source = self.source_length(context_length)
        return self.decoder.state_bytes(length, source)

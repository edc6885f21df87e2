"""Plausible bugs in the variants of softmax attention that the tests must notice."""

from __future__ import annotations

from mistakes import Mutant

_GROUPED = "mixers/attentions/grouped_query.py"
_LATENT = "mixers/attentions/latent_attention.py"
_DIFFERENTIAL = "mixers/attentions/differential_attention.py"
_SINKS = "mixers/attentions/sink_attention.py"

MUTANTS_OF_ATTENTIONS: tuple[Mutant, ...] = (
    Mutant(
        "heads that share keys are dealt out in turn, not side by side",
        _GROUPED,
        "        return split_heads(self.query(x), self.heads)\n",
        "        queries = split_heads(self.query(x), self.heads)\n"
        "        turns = queries.unflatten(1, (-1, self.key_value_heads)).transpose(1, 2)\n"
        "        return turns.flatten(1, 2)\n",
        "grouped_query",
    ),
    Mutant(
        "the cache is counted as if no head were shared",
        _GROUPED,
        "        return 4 * 2 * self.key_value_heads * self.head_dim * length\n",
        "        return 4 * 2 * self.heads * self.head_dim * length\n",
        "grouped_query",
    ),
    Mutant(
        "the scale forgets the rotary part",
        _LATENT,
        "self.scale = self.key_dim**-0.5",
        "self.scale = self.head_dim**-0.5",
        "latent_attention",
    ),
    Mutant(
        "rotary keys are cached as if each were the first",
        _LATENT,
        "place = torch.tensor([state[0].shape[1]], device=x.device)",
        "place = torch.tensor([0], device=x.device)",
        "latent_attention",
    ),
    Mutant(
        "what is cached is not normed",
        _LATENT,
        "latents = torch.cat([state[0], self._latents(x)], dim=1)",
        "latents = torch.cat([state[0], self.down(x)], dim=1)",
        "latent_attention",
    ),
    Mutant(
        "lambda starts in every layer as at the bottom",
        _DIFFERENTIAL,
        "self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * layer) if given",
        "self.lambda_init = 0.8 - 0.6 if given",
        "differential_attention",
    ),
    Mutant(
        "the two halves of the heads are the first and the last ones, not neighbours",
        _DIFFERENTIAL,
        "heads = softmaxes[:, 0::2] - self._lambda() * softmaxes[:, 1::2]",
        "heads = softmaxes[:, : self.heads] - self._lambda() * softmaxes[:, self.heads :]",
        "differential_attention",
    ),
    Mutant(
        "normed heads are not multiplied by 1 - lambda_init",
        _DIFFERENTIAL,
        "heads = (1 - self.lambda_init) * self.head_norm(heads)",
        "heads = self.head_norm(heads)",
        "differential_attention",
    ),
    Mutant(
        "sinks keep their distance in the text, not in the cache",
        _SINKS,
        "places.clamp(max=self.sinks + self.window), keys",
        "places.clone(), keys",
        "sink_attention",
    ),
    Mutant(
        "a sink within the window is counted twice",
        _SINKS,
        "real & (places[:time] >= self.sinks), time, queries",
        "real, time, queries",
        "sink_attention",
    ),
    Mutant(
        "a step drops the sinks",
        _SINKS,
        "return torch.cat([part[:, :, : self.sinks], part[:, :, -self.window :]], dim=2)",
        "return part[:, :, -self.sinks - self.window :]",
        "sink_attention",
    ),
)

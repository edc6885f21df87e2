"""Plausible bugs of encoder-decoders and of their decoding, which the tests must notice.

The tests named here hold a model against its paper's equations, or against a law of all of them;
none of those that compare the text of a file, which would notice any change.
"""

from __future__ import annotations

from mistakes import Mutant

_LAWS = "test_architecture_laws.py"
_SEQ2SEQ = "architectures/test_seq2seq.py"
_ATTENTIVE = "architectures/test_attentive_seq2seq.py"
_CONV = "architectures/test_conv_seq2seq.py"
_TRANSLATOR = "architectures/test_translator.py"
_DECODING = "test_decoding.py"

MUTANTS_OF_ARCHITECTURES: tuple[Mutant, ...] = (
    Mutant(
        "a reversed source has its padding first",
        "architectures/seq2seq.py",
        "order = mask.logical_not().long().argsort(dim=1, stable=True)",
        "order = mask.long().cumsum(dim=1).argsort(dim=1, stable=True)",
        "papers_equations",
        battery=_SEQ2SEQ,
    ),
    Mutant(
        "padding behind a source is read",
        "kernels/recurrence.py",
        "lengths = num_real.clamp(min=1)",
        "lengths = num_real.clamp(min=x.shape[1])",
        "test_laws and seq2seq-padding",
        battery=_LAWS,
    ),
    Mutant(
        "Cho's c is the decoder's first state",
        "architectures/seq2seq.py",
        "return SourceSummary((start, *map(torch.zeros_like, states[1:])), c)",
        "return SourceSummary((start, *map(torch.zeros_like, states[1:])), start[:, -1])",
        "papers_equations",
        battery=_SEQ2SEQ,
    ),
    Mutant(
        "Cho's update gate has the opposite sense",
        "architectures/seq2seq.py",
        "return z * h + (1 - z) * torch.tanh(x_n + self.candidate(r * h))",
        "return (1 - z) * h + z * torch.tanh(x_n + self.candidate(r * h))",
        "papers_equations",
        battery=_SEQ2SEQ,
    ),
    Mutant(
        "alignment does not hide the padding of the source",
        "kernels/alignment.py",
        "is_seen, share = source.is_real.unsqueeze(1), None",
        "is_seen, share = torch.ones_like(source.is_real).unsqueeze(1), None",
        "test_laws and attentive_seq2seq-padding",
        battery=_LAWS,
    ),
    Mutant(
        "weights of local-p are normalised again",
        "kernels/alignment.py",
        "return weights if share is None else weights * share",
        "return weights if share is None else nn.functional.normalize(weights * share, 1, -1)",
        "equations_of_its_paper",
        battery=_ATTENTIVE,
    ),
    Mutant(
        "input feeding is a step late",
        "architectures/attentive_seq2seq.py",
        "state = replace(state, vectors=(*state.vectors, feature.squeeze(1)))",
        "state = replace(state, vectors=(*state.vectors, [fed, *[f[:, 0] for f in features]][-1]))",
        "equations_of_its_paper",
        battery=_ATTENTIVE,
    ),
    Mutant(
        "Bahdanau's read-out sees s_i",
        "architectures/attentive_seq2seq.py",
        "parts = [torch.stack(last, dim=1), embedded,",
        "parts = [torch.stack([*last[1:], states[-1]], dim=1), embedded,",
        "equations_of_its_paper",
        battery=_ATTENTIVE,
    ),
    Mutant(
        "Bahdanau's z has the opposite sense",
        "kernels/gated_unit.py",
        "return torch.lerp(state, candidate, z)",
        "return torch.lerp(candidate, state, z)",
        "equations_of_its_paper",
        battery=_ATTENTIVE,
    ),
    Mutant(
        "ConvS2S does not scale contexts by m sqrt(1/m)",
        "architectures/conv_seq2seq.py",
        "@ source.values * root[:, None, None]",
        "@ source.values + 0 * root[:, None, None]",
        "values_and_gradients",
        battery=_CONV,
    ),
    Mutant(
        "ConvS2S takes z alone, without e",
        "architectures/conv_seq2seq.py",
        "ConvSource(keys, keys + embedded, is_real)",
        "ConvSource(keys, keys, is_real)",
        "values_and_gradients",
        battery=_CONV,
    ),
    Mutant(
        "ConvS2S writes with its taps in the wrong order",
        "architectures/conv_seq2seq.py",
        "weight = self._normed().transpose(1, 2).flatten(1)",
        "weight = self._normed().flip(2).transpose(1, 2).flatten(1)",
        "test_laws and conv_seq2seq-steps",
        battery=_LAWS,
    ),
    Mutant(
        "ByteNet's decoder sees the next token",
        "architectures/bytenet.py",
        "before = reach if is_causal else (kernel_size - 1) // 2 * dilation",
        "before = max(0, reach - 1) if is_causal else (kernel_size - 1) // 2 * dilation",
        "test_laws and bytenet-steps",
        battery=_LAWS,
    ),
    Mutant(
        "the translator's source is not scaled",
        "architectures/translator.py",
        "self.encoder(embedding(context, context_mask), context_mask)",
        "self.encoder(embedding(context, context_mask) / embedding.scale, context_mask)",
        "torchs_transformer",
        battery=_TRANSLATOR,
    ),
    Mutant(
        "the tied matrix is scaled at the output too",
        "architectures/translator.py",
        "return nn.functional.linear(hidden, matrix.weight)",
        "return nn.functional.linear(hidden, matrix.weight) * self.embedding.scale",
        "torchs_transformer",
        battery=_TRANSLATOR,
    ),
    Mutant(
        "the decoder sees padding of the source",
        "architectures/translator.py",
        "return self._logits(self.decoder(target, mask, encoded, context_mask))",
        "return self._logits(self.decoder(target, mask, encoded, None))",
        "torchs_transformer",
        battery=_TRANSLATOR,
    ),
    Mutant(
        "the slot of a hypothesis that ends is lost",
        "decoding.py",
        "_filled(totals.masked_fill(ends, -torch.inf), beam).topk(beam)",
        "_filled(totals.masked_fill(ends, -torch.inf)[:, :beam], beam).topk(beam)",
        "refilled",
        battery=_DECODING,
    ),
    Mutant(
        "scores are normalised twice",
        "decoding.py",
        "scores = best / _length_factor(length, self.decoder)",
        "scores = best / _length_factor(length, self.decoder) ** 2",
        "all_hypotheses",
        battery=_DECODING,
    ),
    Mutant(
        "a hypothesis goes on from the state of another sequence",
        "decoding.py",
        "first = beam * torch.arange(len(origins), device=origins.device)",
        "first = torch.arange(len(origins), device=origins.device)",
        "rows_of_a_batch",
        battery=_DECODING,
    ),
    Mutant(
        "states stay in their slots while hypotheses move",
        "decoding.py",
        "part if id(part) in alike else part.index_select(0, rows)",
        "part",
        "test_laws and exhaustive",
        battery=_LAWS,
    ),
    Mutant(
        "the end symbol is not counted",
        "decoding.py",
        "scores = total / _length_factor(lengths + has_ended, decoder)",
        "scores = total / _length_factor(lengths, decoder)",
        "test_laws and beam_of_one",
        battery=_LAWS,
    ),
)

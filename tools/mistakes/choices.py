"""Plausible bugs in what a model samples, and in how it learns, that the tests must notice."""

from __future__ import annotations

from mistakes import Mutant

_HARD = "mixers/attentions/hard_attention.py"
_OF_HARD = "mixers/attentions/test_hard_attention.py"
_SCORE = "score_function.py"
_OF_SCORE = "test_score_function.py"

MUTANTS_OF_CHOICES: tuple[Mutant, ...] = (
    Mutant(
        "what is cheaper than usual is made less likely",
        _SCORE,
        "advantages = (costs - baseline).detach()",
        "advantages = (baseline - costs).detach()",
        "whole_model",
        battery=_OF_SCORE,
    ),
    Mutant(
        "the cost is differentiated once more through its advantage",
        _SCORE,
        "advantages = (costs - baseline).detach()",
        "advantages = costs - baseline",
        "whole_model",
        battery=_OF_SCORE,
    ),
    Mutant(
        "entropy is punished",
        _SCORE,
        "choices.log_probability - entropy_weight * choices.entropy",
        "choices.log_probability + entropy_weight * choices.entropy",
        "nothing_but",
        battery=_OF_SCORE,
    ),
    Mutant(
        "the reported loss holds the term of the choices",
        _SCORE,
        "    return term - term.detach()\n",
        "    return term\n",
        "nothing_but",
        battery=_OF_SCORE,
    ),
    Mutant(
        "the average cost forgets nine tenths at each step",
        _SCORE,
        "baseline.lerp_(cost.to(baseline.dtype), 1 - DECAY)",
        "baseline.lerp_(cost.to(baseline.dtype), DECAY)",
        "moving_average",
        battery=_OF_SCORE,
    ),
    Mutant(
        "only the last layer's choices count",
        _SCORE,
        "        found += mixer.choices\n",
        "        found = mixer.choices\n",
        "whole_model",
        battery=_OF_SCORE,
    ),
    Mutant(
        "of a pair the first sequence alone counts",
        _SCORE,
        ".reshape(len(outputs.logits), -1).sum(1)",
        ".reshape(len(outputs.logits), -1)[:, 0]",
        "both_sequences",
        battery=_OF_SCORE,
    ),
    Mutant(
        "a token is sampled in evaluation too",
        _HARD,
        "        if self.training:\n",
        "        if True:\n",
        "drawn_in_evaluation",
        battery=_OF_HARD,
    ),
    Mutant(
        "the largest noise may choose what is hidden",
        _HARD,
        "(logs + gumbel_like(logs)).masked_fill(weights == 0, torch.finfo(logs.dtype).min)",
        "logs + gumbel_like(logs)",
        "never_chosen",
        battery=_OF_HARD,
    ),
    Mutant(
        "straight-through weighs what is hidden",
        _HARD,
        "relaxed = softmax_weights(noisy, visible)",
        "relaxed = noisy.softmax(dim=-1)",
        "never_chosen",
        battery=_OF_HARD,
    ),
    Mutant(
        "a query that sees nothing reads the first token",
        _HARD,
        "    ones = (weights.gather(-1, places) > 0).to(scores.dtype)\n",
        "    ones = torch.ones_like(places, dtype=scores.dtype)\n",
        "never_chosen",
        battery=_OF_HARD,
    ),
    Mutant(
        "noise is Gaussian, not Gumbel's",
        _HARD,
        "return -torch.empty_like(x).exponential_().clamp_min_(smallest).log()",
        "return torch.randn_like(x).clamp_min_(-1 / smallest)",
        "as_often",
        battery=_OF_HARD,
    ),
    Mutant(
        "straight-through reads the relaxed weights",
        _HARD,
        "chosen = chosen + (relaxed - relaxed.detach())",
        "chosen = relaxed",
        "as_often",
        battery=_OF_HARD,
    ),
    Mutant(
        "the relaxation multiplies",
        _HARD,
        "(scores + gumbel_like(scores)) / self.config.relaxation",
        "(scores + gumbel_like(scores)) * self.config.relaxation",
        "lower_relaxation",
        battery=_OF_HARD,
    ),
    Mutant(
        "choices of a soft batch are taught as well",
        _HARD,
        "(chosen * logs).sum(dim=(1, 3)) * is_hard",
        "(chosen * logs).sum(dim=(1, 3))",
        "as_a_whole",
        battery=_OF_HARD,
    ),
    Mutant(
        "each row draws by itself whether it is soft",
        _HARD,
        "torch.rand((), device=x.device)",
        "torch.rand((len(x), 1, 1, 1), device=x.device)",
        "as_a_whole",
        battery=_OF_HARD,
    ),
    Mutant(
        "choices of padded queries count",
        _HARD,
        "real = 1.0 if mask is None else mask",
        "real = 1.0",
        "padded_queries",
        battery=_OF_HARD,
    ),
)

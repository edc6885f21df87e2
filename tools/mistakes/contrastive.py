"""Bugs of two towers that are compared, and of a loss over all of a batch."""

from __future__ import annotations

from mistakes import Mutant


def _of_model(mistake: str, old: str, new: str, tests: str) -> Mutant:
    folder = "architectures/multimodal"
    return Mutant(
        mistake,
        f"{folder}/contrastive.py",
        old,
        new,
        tests,
        battery=f"{folder}/test_contrastive.py",
    )


def _of_loss(mistake: str, file: str, old: str, new: str, tests: str) -> Mutant:
    battery = "training/engines/test_joint.py"
    return Mutant(mistake, file, old, new, tests, battery=battery, room="suite")


MUTANTS_OF_CONTRASTIVE: tuple[Mutant, ...] = (
    _of_model(
        "a text is read at its largest symbol",
        "last = tokens.shape[1] - 1 if mask is None else mask.sum(dim=1) - 1",
        "last = tokens.argmax(dim=1)",
        "last_symbol",
    ),
    _of_model(
        "a text is read at its last place, padding or not",
        "last = tokens.shape[1] - 1 if mask is None else mask.sum(dim=1) - 1",
        "last = tokens.shape[1] - 1",
        "last_symbol",
    ),
    _of_model(
        "the scale is cut in the formula, not in the parameter",
        "self.log_scale.clamp_(max=math.log(LARGEST_SCALE))",
        "pass\n        return self.log_scale.clamp(max=math.log(LARGEST_SCALE)).exp()",
        "scale_is_cut",
    ),
    _of_model(
        "vectors keep their lengths",
        "return normalize(self.text_map(found), dim=-1)",
        "return self.text_map(found)",
        "scaled_cosines",
    ),
    _of_loss(
        "captions are not asked for their pictures",
        "tasks/emoji/emoji_pairs.py",
        "for x in (logits, logits.T)]",
        "for x in (logits, logits)]",
        "both_directions",
    ),
    _of_loss(
        "parts are compared within themselves",
        "training/engines/local.py",
        "if task.compares_examples and self._training.accumulation > 1:",
        "if False:",
        "whole_batch",
    ),
    _of_loss(
        "the second pass draws other numbers",
        "training/engines/joint.py",
        "    _restore(before)\n",
        "",
        "same_numbers",
    ),
    _of_loss(
        "parts get the gradients of other rows",
        "training/engines/joint.py",
        "for index, rows in enumerate(logits)",
        "for index, rows in enumerate(logits[::-1])",
        "parts_give or same_numbers",
    ),
)

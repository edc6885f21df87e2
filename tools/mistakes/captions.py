"""Bugs of models that read an image beside words."""

from __future__ import annotations

from mistakes import Mutant

_SHOW = "architectures/multimodal/show_attend_tell.py"
_OF_SHOW = "architectures/multimodal/test_show_attend_tell.py"
_QUESTION = "architectures/multimodal/question_answerer.py"
_OF_QUESTION = "architectures/multimodal/test_question_answerer.py"

MUTANTS_OF_CAPTIONS: tuple[Mutant, ...] = (
    Mutant(
        "the penalty of a model is not added to the loss",
        "training/engines/engine.py",
        "return loss + (outputs.auxiliary[PENALTY] * shares).sum()",
        "return loss",
        "penalty",
        battery="training/engines/test_local.py",
        room="suite",
    ),
    Mutant(
        "the first word is read as the start symbol",
        _SHOW,
        "words = torch.cat([torch.zeros_like(words[:, :1]), words[:, 1:]], dim=1)",
        "words = words + 0",
        "first_word_is_read_as_zeros",
        battery=_OF_SHOW,
    ),
    Mutant(
        "the penalty is the mean over places",
        _SHOW,
        "missing = (1 - weights.sum(dim=1)).square().sum(dim=1)",
        "missing = (1 - weights.sum(dim=1)).square().mean(dim=1)",
        "penalty",
        battery=_OF_SHOW,
    ),
    Mutant(
        "the penalty counts looks of padded words",
        _SHOW,
        "weights = weights * mask.unsqueeze(-1)",
        "weights = weights * 1",
        "penalty",
        battery=_OF_SHOW,
    ),
    Mutant(
        "choices at padded words count",
        _SHOW,
        "log_probability, entropy = log_probability * mask, entropy * mask",
        "pass",
        "padded_words",
        battery=_OF_SHOW,
    ),
    Mutant(
        "the look reads the new state, not the one before the word",
        _SHOW,
        "z, seen = self.look(state, samples)",
        "z, seen = self.look(replace(state, h=self.recurrence(torch.cat([word, word], dim=-1), "
        "(state.h, state.c))[0]), samples)",
        "paper_written_out",
        battery=_OF_SHOW,
    ),
    Mutant(
        "the gate is left out",
        _SHOW,
        "return z if self.gate is None else torch.sigmoid(self.gate(state.h)) * z, seen",
        "return z, seen",
        "paper_written_out",
        battery=_OF_SHOW,
    ),
    Mutant(
        "hard attention takes the largest weight",
        _SHOW,
        "place = torch.multinomial(weights.detach(), 1)",
        "place = weights.detach().argmax(dim=1, keepdim=True)",
        "as_often_as_its_weight",
        battery=_OF_SHOW,
    ),
    Mutant(
        "every batch is read by choices",
        _SHOW,
        "return is_hard and bool(torch.rand(()) >= _SOFT_SHARE)",
        "return is_hard",
        "half_of_the_batches",
        battery=_OF_SHOW,
    ),
    Mutant(
        "padded words are part of one sequence with the places",
        _QUESTION,
        "None if is_all else both",
        "None",
        "padding_is_not_read",
        battery=_OF_QUESTION,
    ),
    Mutant(
        "places stand behind the longest question of the batch",
        _QUESTION,
        "missing = self.spec.length - words.shape[1]",
        "missing = 0",
        "padding_is_not_read",
        battery=_OF_QUESTION,
    ),
    Mutant(
        "a caption of a photo is judged by one reference",
        "tasks/sequence_metrics.py",
        "if batch.references is None:",
        "if True:",
        "judged_by_all or any_reference",
        battery="tasks/photos/test_photo_captions.py",
        room="suite",
    ),
    Mutant(
        "in training a photo always has its first caption",
        "tasks/photos/photo_captions.py",
        "captions = drawn.integers(batch, low=0, high=NUM_REFERENCES)",
        "captions = drawn.integers(batch, low=0, high=1)",
        "epoch_has_each_photo_once",
        battery="tasks/photos/test_photo_captions.py",
        room="suite",
    ),
    Mutant(
        "words of the test captions are learnt too",
        "tasks/photos/photo_captions.py",
        'KnownWords(said["training"], ',
        'KnownWords(said["training"] + said["test"], ',
        "unknown_and_stands_in_the_references",
        battery="tasks/photos/test_photo_captions.py",
        room="suite",
    ),
)

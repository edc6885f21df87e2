"""Bugs of texts without labels: of what is hidden, of where answers stand, of who sees them."""

from __future__ import annotations

from mistakes import Mutant


def _of_task(mistake: str, file: str, old: str, new: str, tests: str) -> Mutant:
    folder = "tasks/pretraining"
    return Mutant(
        mistake, f"{folder}/{file}", old, new, tests, battery=f"{folder}/test_{file}", room="suite"
    )


def _of_model(mistake: str, file: str, old: str, new: str, tests: str, battery: str) -> Mutant:
    return Mutant(mistake, file, old, new, tests, battery=battery)


MUTANTS_OF_PRETRAINING: tuple[Mutant, ...] = (
    _of_task(
        "what stays as it is is not asked for",
        "masking.py",
        "np.put_along_axis(asked, places, spans > 0, axis=1)",
        "np.put_along_axis(asked, places, (spans > 0) & (drawn[:, 1] < 0.9), axis=1)",
        "80_10_10 or share",
    ),
    _of_task(
        "each symbol of a span is hidden in a way of its own",
        "masking.py",
        "np.take_along_axis(drawn[:, 1], np.maximum(spans - 1, 0), axis=1)",
        "drawn[:, 1]",
        "spans",
    ),
    _of_task(
        "spans overlap",
        "masking.py",
        "starts = chosen + np.arange(time) * (self.span - 1)",
        "starts = chosen",
        "spans",
    ),
    _of_task(
        "symbols that may not be hidden are",
        "masking.py",
        'places = np.argsort(~may_hide, axis=1, kind="stable")',
        'places = np.argsort(may_hide, axis=1, kind="stable")',
        "may_not_be_hidden",
    ),
    _of_task(
        "a random symbol may be the mask",
        "masking.py",
        ".astype(np.int64) + others.start",
        ".astype(np.int64)",
        "80_10_10",
    ),
    _of_task(
        "the answers stand in another order than the places",
        "masked_words.py",
        "targets = np.take_along_axis(np.where(asked, texts, UNSCORED), places, axis=1)",
        "targets = np.take_along_axis(np.where(asked, texts, UNSCORED), places[:, ::-1], axis=1)",
        "answers_in_their_places",
    ),
    _of_task(
        "every second text follows the first",
        "masked_words.py",
        "second = np.where(follows[:, None], windows, others)[:, 1 + half : 1 + half + rest]",
        "second = windows[:, 1 + half : 1 + half + rest]",
        "follows",
    ),
    _of_task(
        "segments do not say where the second text begins",
        "masked_words.py",
        "segments[:, half + 2 :] = 1",
        "segments[:, half + 1 :] = 1",
        "segments",
    ),
    _of_task(
        "the loss of pairs is a mean over words and answers together",
        "masked_words.py",
        "words = targets.masked_fill(~_is_word(batch), UNSCORED)",
        "words = targets",
        "loss_of_pairs",
    ),
    _of_task(
        "the prefix is asked for, which its tokens see",
        "next_words.py",
        "is_asked = torch.arange(self.length) >= prefix_length(self.length) - 1",
        "is_asked = torch.arange(self.length) >= prefix_length(self.length) - 3",
        "prefix or scored_logit",
    ),
    _of_task(
        "a passage of a play is of the next one",
        "labelled.py",
        "labels += [play] * len(starts)",
        "labels += [(play + 1) % NUM_PLAYS] * len(starts)",
        "passages",
    ),
    _of_task(
        "articles that are held out are read",
        "corpora.py",
        "return {part: [_words(x) for xml in articles[part]",
        'return {part: [_words(x) for xml in articles["training"]',
        "articles or sizes",
    ),
    _of_model(
        "behind the prefix each token sees all",
        "mixers/attentions/prefix_attention.py",
        "is_causal=True,",
        "is_causal=False,",
        "prefix_attention",
        "test_every_mixer.py",
    ),
    _of_model(
        "logits are of other tokens than those asked for",
        "architectures/bert.py",
        "asked = hidden.gather(1, places[:, :, None].expand(-1, -1, hidden.shape[2]))",
        "asked = hidden[:, : places.shape[1]]",
        "places",
        "architectures/test_bert.py",
    ),
)

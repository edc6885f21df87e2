"""Bugs of a code for images, of a model that draws by it, and of how drawings are judged."""

from __future__ import annotations

from mistakes import Mutant


def _of_code(mistake: str, old: str, new: str, tests: str) -> Mutant:
    return Mutant(
        mistake,
        "vision/image_tokenizer.py",
        old,
        new,
        tests,
        battery="vision/test_image_tokenizer.py",
    )


def _of_model(mistake: str, old: str, new: str, tests: str) -> Mutant:
    folder = "architectures/multimodal"
    return Mutant(
        mistake,
        f"{folder}/image_tokens.py",
        old,
        new,
        tests,
        battery=f"{folder}/test_image_tokens.py",
    )


def _of_score(mistake: str, file: str, old: str, new: str, tests: str) -> Mutant:
    folder, _, name = file.rpartition("/")
    return Mutant(mistake, file, old, new, tests, battery=f"{folder}/test_{name}", room="suite")


MUTANTS_OF_DRAWINGS: tuple[Mutant, ...] = (
    _of_code(
        "no gradient reaches the encoder through the code",
        "handed_on = vectors + (chosen - vectors).detach()",
        "handed_on = chosen.detach()",
        "handed_on",
    ),
    _of_code(
        "the commitment pulls the codes as well",
        "of_vectors = (chosen.detach() - vectors)",
        "of_vectors = (chosen - vectors)",
        "commitment",
    ),
    _of_code(
        "the farthest code is taken",
        "2 * vectors @ codes.T).argmin(dim=-1)",
        "2 * vectors @ codes.T).argmax(dim=-1)",
        "nearest_code",
    ),
    _of_code(
        "lengths of free codes are left out",
        "(codes.square().sum(dim=-1) - 2 * vectors",
        "(-2 * vectors",
        "nearest_code",
    ),
    _of_code(
        "the temperature multiplies",
        "((logs + noise) / self._temperature())",
        "((logs + noise) * self._temperature())",
        "gumbel_softmax",
    ),
    _of_code(
        "the noise is exponential, not Gumbel's",
        "noise = -torch.empty_like(logs).exponential_().log()",
        "noise = torch.empty_like(logs).exponential_()",
        "gumbel_softmax",
    ),
    _of_code(
        "shares are drawn in use, too",
        "if not self.training:",
        "if False:",
        "likeliest or tokens_alone",
    ),
    _of_code(
        "the divergence is from the mean of the shares, not from a uniform one",
        "(logs + math.log(self.config.codes))",
        "(logs - logs.mean(dim=(0, 1)))",
        "used_alike",
    ),
    _of_model(
        "a token is predicted with itself",
        "self.code_embedding(tokens[:, :-1])], dim=1)",
        "self.code_embedding(tokens[:, 1:])], dim=1)",
        "before_it",
    ),
    _of_model(
        "the first token is predicted before the caption has ended",
        "[words.shape[1] - 1, self.num_image_tokens], dim=1",
        "[words.shape[1] - 2, self.num_image_tokens + 1], dim=1",
        "before_it or teacher_forced",
    ),
    _of_model("the tokenizer is trained", ".requires_grad_(False)", "", "not_trained"),
    _of_model(
        "fillers are learned as words",
        "is_real = torch.ones_like(losses) if mask is None else mask[:, 1:].to(losses)",
        "is_real = torch.ones_like(losses)",
        "fillers",
    ),
    _of_model(
        "the likeliest token is drawn",
        "return (until < chances[:, None] * until[:, -1:]).sum(dim=-1)",
        "return logits.argmax(dim=-1)",
        "as_often",
    ),
    _of_model(
        "words are predicted from themselves",
        "words[:, 1:], reduction",
        "words[:, :-1], reduction",
        "words_are_learned",
    ),
    _of_score(
        "chances depend on the place in the batch",
        "tasks/data_order.py",
        "RandomStream(int.from_bytes(digest[:7]), 0).uniform(count) for digest in digests]",
        "RandomStream(place, 0).uniform(count) for place, _ in enumerate(digests)]",
        "chances",
    ),
    _of_score(
        "perplexity counts codes, used alike or not",
        "tasks/emoji/picture_metrics.py",
        "return float((-(shares * shares.log()).sum()).exp())",
        "return float(len(shares))",
        "perplexity",
    ),
    _of_score(
        "objects are read on top of each other",
        "tasks/emoji/reading.py",
        "known.is_near[place][:, :, None]",
        "known.is_near[place][:, :, None] & False",
        "as_they_were_drawn",
    ),
    _of_score(
        "objects are judged in any order",
        "tasks/emoji/reading.py",
        "(found == asked).all(axis=1)",
        "(np.sort(found) == np.sort(asked)).all(axis=1)",
        "picture_is_right",
    ),
)

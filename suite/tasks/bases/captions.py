"""Base classes of tasks whose words are whole symbols, and of tasks that ask for a caption.

symbols   0 is padding, 1 begins and 2 ends a caption, as in `bakeoff.suite.tasks.bases.subwords`;
          then the words in alphabetical order
context   the picture, `[rows, columns, 3]`, in colour
inputs    1, then the words of the caption, padded at the end
target    at each position the next word, after the last one 2; padding is not scored
score     BLEU of the captions that the model generates by greedy search
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.decoding import Decoder
from bakeoff.models.interface import CONTEXT, INPUTS, Input
from bakeoff.suite.tasks.bases.subwords import END, PADDING, START
from bakeoff.suite.tasks.caption_metrics import CiderD, Document, RougeL, captions
from bakeoff.suite.tasks.data_order import Whole
from bakeoff.suite.tasks.sequence_metrics import Bleu
from bakeoff.suite.tasks.task import UNSCORED, Task

_SPECIAL = ("", "", "")


class Words:
    """A vocabulary of whole words.

    Args:
        texts: Texts that contain all words of the vocabulary, separated by single spaces.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        found = sorted({word for text in texts for word in text.split()})
        self._words = (*_SPECIAL, *found)
        self._symbols = {word: symbol for symbol, word in enumerate(found, len(_SPECIAL))}

    def __len__(self) -> int:
        return len(self._words)

    def encoded(self, text: str) -> list[int]:
        """Return the symbols of a text of known words."""
        return [self._symbols[word] for word in text.split()]

    def decoded(self, symbols: Sequence[int]) -> str:
        """Return the text of the symbols, ignoring padding, start and end."""
        return " ".join(word for word, _ in self.words(symbols))

    def words(self, symbols: Sequence[int]) -> list[tuple[str, range]]:
        """Return the words of the symbols' text, each with the position of its symbol."""
        words = (self._words[symbol] for symbol in symbols)
        return [(word, range(place, place + 1)) for place, word in enumerate(words) if word]


class PictureTask(Task):
    """A task with a picture and words, which are symbols.

    Attributes:
        picture: The rows and columns of the picture.
    """

    is_padded = True
    token_name = "words"
    picture: ClassVar[tuple[int, int]]

    @classmethod
    @abstractmethod
    def vocabulary(cls) -> Words:
        """Return the words; with the special symbols they are `input_size` symbols.

        Raises:
            TaskError: if the data file is missing, altered or malformed.
        """

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """Return the picture."""
        rows, columns = cls.picture
        return {CONTEXT: Input(kind="image", size=3, length=rows * columns, grid=cls.picture)}

    @classmethod
    def written(cls, symbols: Sequence[int]) -> str:
        """Return the text of the symbols."""
        return cls.vocabulary().decoded(symbols)

    def text(self, tokens: Sequence[int]) -> str:
        """Return the tokens as readable text."""
        return self.written(tokens)

    def words(self, tokens: Sequence[int]) -> list[tuple[str, range]]:
        """Return the words of the tokens' text, each with the position of its token."""
        return self.vocabulary().words(tokens)


class CaptionTask(PictureTask):
    """A task that asks for a caption of a picture.

    Attributes:
        num_references: The number of right captions of each picture, one of which is the target.
    """

    num_references: ClassVar[int] = 1

    architecture = "captioner"
    asks_for = "sequence"
    reads_answers = True
    floors = ("likeliest_sequence", "nearest_caption")

    def __init_subclass__(cls) -> None:
        """Give each task metrics of its own, since its symbols stand for other words."""
        assert cls.fixed_length is not None, "a caption has a last place"
        cls.metric = Bleu(
            decoder=Decoder(max_length=cls.fixed_length),
            end=END,
            text=cls.written,
            num_references=cls.num_references,
        )
        cls.also_scored = (
            CiderD(end=END, text=cls.written, references=cls.references),
            RougeL(end=END, text=cls.written),
        )

    @classmethod
    def references(cls) -> list[Document]:
        """Return the captions of the test split, from which CIDEr-D computes word weights."""
        assert cls.fixed_length is not None, "see `__init_subclass__`"
        return captions(cls(cls.fixed_length))


def with_article(name: str) -> str:
    """Return the name with its indefinite article, such as "a dog" or "an orange book"."""
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def padded(rows: Sequence[Sequence[int]]) -> Whole:
    """Return the rows as `[rows, longest]`, padded at the end with PADDING."""
    longest = max(map(len, rows))
    return np.array([[*row, *[PADDING] * (longest - len(row))] for row in rows])


def captioned(targets: Whole, pictures: NDArray[np.float32]) -> tuple[dict[str, Tensor], Tensor]:
    """Return the inputs and the targets of a model.

    Args:
        targets: `[captions, time]`, the words of each and its end symbol, padded at the end.
        pictures: `[captions, rows, columns, 3]`.
    """
    asked = torch.from_numpy(targets)
    inputs = torch.cat([torch.full_like(asked[:, :1], START), asked[:, :-1]], dim=1)
    inputs = inputs.masked_fill(inputs == END, PADDING)
    given = {INPUTS: inputs, "mask": inputs != PADDING, CONTEXT: torch.from_numpy(pictures)}
    return given, asked.masked_fill(asked == PADDING, UNSCORED)

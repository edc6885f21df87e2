"""Needles in a haystack: facts far apart among noise, with questions at the end.

Hsieh et al. 2024, "RULER: What's the real context size of your long-context language models?"
(arXiv:2404.06654), section 3: its tasks of retrieval and of tracing, in symbols instead of English,
so that a small model can be trained from scratch. The length of a trial is the axis to vary.

    symbols   256: 0 marks a fact, 1 asks, 2 to 127 are noise (the hay), 128 to 191 are names, 192
              to 255 are values
    fact      three symbols: 0, a name, and the value or the name that it stands for
    input     uniform noise with facts at uniform positions; then for each question two symbols:
              1 and a name
    target    at each name in a question its value; other positions are not scored
    score     accuracy over questions

needle              one fact, one question (the paper's single needle). In parts by depth:
                    ``depth=25`` has facts in the first quarter of the hay, the farthest one
needles             4, 8, 16 or 32 facts with distinct names and values, all asked for in random
                    order (its multiple keys and multiple queries), in parts by their number:
                    ``keys=8``
variable_tracking   three chains of five facts each: A is a value, B is A, C is B, and so on, each
                    chain in this order, interleaved with the others. All names are asked for in
                    random order. In parts by the number of facts that an answer needs: ``links=5``

There are some departures: the paper's hay is a repeated sentence or essays, its values are numbers
of seven digits that a model writes, and its variable tracking has one chain and asks which names
have its value; here the task asks for the value of each name, for which several chains are
necessary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream, Whole
from bakeoff.suite.tasks.task import UNSCORED, Batch, DataSource

VERSION = 1
MARK, ASK, FIRST_HAY, FIRST_NAME, FIRST_VALUE, NUM_SYMBOLS = 0, 1, 2, 128, 192, 256
NUM_NAMES, NUM_VALUES = FIRST_VALUE - FIRST_NAME, NUM_SYMBOLS - FIRST_VALUE
FACT, QUESTION = 3, 2  # number of symbols of a fact and of a question
NUMBERS_OF_KEYS = (4, 8, 16, 32)
TOKENS_PER_KEY = 2 * (FACT + QUESTION)  # minimum, so that half of a sequence is hay
NUM_CHAINS, NUM_LINKS = 3, 5
DEPTHS = (25, 50, 75, 100)  # percent of the hay


def _source(name: str, title: str, **definition: object) -> DataSource:
    symbols = [MARK, ASK, FIRST_HAY, FIRST_NAME, FIRST_VALUE, NUM_SYMBOLS]
    return definition_source(
        name=name,
        title=title,
        origin="Hsieh et al. 2024, arXiv:2404.06654, section 3",
        definition={"symbols": symbols, "places": "uniform", **definition},
        version=VERSION,
    )


class _Haystack(GeneratedTask):
    """Base class of the three tasks: facts among hay, then questions."""

    version = VERSION
    architecture = "language_model"
    asks_for = "next_symbols"
    input_size = NUM_SYMBOLS
    output_size = NUM_SYMBOLS

    def written(self, stream: RandomStream, facts: Whole, asked: Whole, answers: Whole) -> Batch:
        """Return the batch of these facts and questions; draw the hay and the positions of facts.

        Args:
            stream: The stream to draw from.
            facts: `[count, facts, 2]`, a name and what it stands for, in their order.
            asked: `[count, questions]`, names.
            answers: `[count, questions]`, their values.
        """
        (count, num_facts, _), num_questions = facts.shape, asked.shape[1]
        end_of_hay = self.length - QUESTION * num_questions
        inputs = stream.integers(count, self.length, low=FIRST_HAY, high=FIRST_NAME)
        places = draw_places(stream, count, num_facts, end_of_hay)
        marked = np.concatenate([np.full_like(facts[..., :1], MARK), facts], axis=2)
        within = places[..., None] + np.arange(FACT)
        np.put_along_axis(inputs, within.reshape(count, -1), marked.reshape(count, -1), axis=1)
        inputs[:, end_of_hay::QUESTION] = ASK
        inputs[:, end_of_hay + 1 :: QUESTION] = asked
        targets = np.full_like(inputs, UNSCORED)
        targets[:, end_of_hay + 1 :: QUESTION] = answers
        return Batch(inputs={"inputs": torch.from_numpy(inputs)}, targets=torch.from_numpy(targets))


class Needle(_Haystack):
    """Recall of the value of a single name."""

    name = "needle"
    source = _source("needle", "One fact in a haystack", facts=1, depths=DEPTHS)
    part_titles: ClassVar[dict[str, str]] = {
        "depth": "depth of the fact in the hay, %",
        "depth=25": "0 to 25",
        "depth=50": "25 to 50",
        "depth=75": "50 to 75",
        "depth=100": "75 to 100",
    }
    lengths = (16, 65_536)

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw a name, its value, then the hay."""
        fact = stream.integers(count, 1, 2, low=0, high=NUM_NAMES)
        fact += [FIRST_NAME, FIRST_VALUE]
        return self.written(stream, fact, fact[..., 0], fact[..., 1])

    def parts(self) -> tuple[str, ...]:
        """Return the parts: quarters of the hay."""
        return tuple(f"depth={depth}" for depth in DEPTHS)

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts by the position of the fact among the possible ones."""
        place = (batch.inputs["inputs"] == MARK).long().argmax(dim=1, keepdim=True)
        quarter = place * len(DEPTHS) // (self.length - QUESTION - FACT + 1)
        return {
            at: (quarter == index).expand(batch.targets.shape)
            for index, at in enumerate(self.parts())
        }


class Needles(_Haystack):
    """Recall of the values of several names."""

    name = "needles"
    answers_are_shown = True
    floors = ("uniform", "majority", "shown_answers")
    source = _source(
        "needles",
        "Several facts in a haystack",
        facts=NUMBERS_OF_KEYS,
        tokens_per_fact=TOKENS_PER_KEY,
    )
    lengths = (NUMBERS_OF_KEYS[0] * TOKENS_PER_KEY, 65_536)

    def kinds(self) -> Sequence[int]:
        """Return the numbers of facts that, with questions, fill at most half of the length."""
        return [num for num in NUMBERS_OF_KEYS if num * TOKENS_PER_KEY <= self.length]

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw names, values, the order of questions, then the hay."""
        names = FIRST_NAME + stream.distinct(count, kind, NUM_NAMES)
        values = FIRST_VALUE + stream.distinct(count, kind, NUM_VALUES)
        order = stream.distinct(count, kind, kind)
        asked, answers = (np.take_along_axis(each, order, axis=1) for each in (names, values))
        return self.written(stream, np.stack([names, values], axis=2), asked, answers)

    def parts(self) -> tuple[str, ...]:
        """Return one part for each number of facts."""
        return tuple(f"keys={num}" for num in self.kinds())

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts by the number of facts of an example, which equals its questions."""
        num_keys = (batch.targets != UNSCORED).sum(dim=1, keepdim=True)
        return {
            f"keys={num}": (num_keys == num).expand(batch.targets.shape) for num in self.kinds()
        }


class VariableTracking(_Haystack):
    """Recall of the values to which chains of names lead."""

    name = "variable_tracking"
    answers_are_shown = True
    floors = ("uniform", "majority", "shown_answers")
    source = _source(
        "variable_tracking", "Chains of facts in a haystack", chains=NUM_CHAINS, links=NUM_LINKS
    )
    lengths = (NUM_CHAINS * NUM_LINKS * (FACT + QUESTION) + 5, 65_536)

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw names, values, the interleaving of chains, the order of questions, then the hay."""
        num = NUM_CHAINS * NUM_LINKS
        names = FIRST_NAME + stream.distinct(count, num, NUM_NAMES)
        values = FIRST_VALUE + stream.distinct(count, NUM_CHAINS, NUM_VALUES)
        chains = names.reshape(count, NUM_CHAINS, NUM_LINKS)
        leads_to = np.concatenate([values[..., None], chains[..., :-1]], axis=2)
        facts = np.stack([names, leads_to.reshape(count, num)], axis=2)
        # The k-th fact of a chain takes the k-th of the chain's positions.
        mixed = np.argsort(stream.distinct(count, num, num) // NUM_LINKS, axis=1, kind="stable")
        placed = np.empty_like(facts)
        np.put_along_axis(placed, mixed[..., None], facts, axis=1)
        order = stream.distinct(count, num, num)
        answers = np.repeat(values, NUM_LINKS, axis=1)
        asked, answers = (np.take_along_axis(each, order, axis=1) for each in (names, answers))
        return self.written(stream, placed, asked, answers)

    def parts(self) -> tuple[str, ...]:
        """Return one part for each number of facts between a name and its value."""
        return tuple(f"links={num + 1}" for num in range(NUM_LINKS))

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts by the number of facts between the name and its value."""
        links = count_links(batch.inputs["inputs"])
        at_name = links.gather(1, batch.inputs["inputs"])
        is_asked = batch.targets != UNSCORED
        return {f"links={num + 1}": (at_name == num + 1) & is_asked for num in range(NUM_LINKS)}


def count_links(inputs: Tensor) -> Tensor:
    """Return the number of facts from each symbol to a value, `[rows, symbols]`; 0 without one."""
    rows, places = (inputs == MARK).nonzero(as_tuple=True)
    leads_to = torch.arange(NUM_SYMBOLS, device=inputs.device).repeat(len(inputs), 1)
    leads_to[rows, inputs[rows, places + 1]] = inputs[rows, places + 2]
    links, at = torch.zeros_like(leads_to), leads_to.clone()
    is_name = leads_to != torch.arange(NUM_SYMBOLS, device=inputs.device)
    for _ in range(NUM_LINKS):
        following = leads_to.gather(1, at)
        links += (following != at).long()
        at = following
    return (links + 1) * is_name


def draw_places(stream: RandomStream, count: int, num_facts: int, end: int) -> Whole:
    """Draw the start of each fact, ascending and without overlap, uniformly, `[count, facts]`."""
    shrunk = end - (FACT - 1) * num_facts  # length if a fact were one symbol
    chosen = np.sort(stream.distinct(count, num_facts, shrunk), axis=1)
    return chosen + (FACT - 1) * np.arange(num_facts)

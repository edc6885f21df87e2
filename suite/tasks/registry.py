"""The table of all tasks, one line each, resolved on first use.

Importing this module loads no task and no data.
"""

from __future__ import annotations

from pathlib import PurePath
from pkgutil import resolve_name

from bakeoff.suite.errors import unknown_name
from bakeoff.suite.schema.task_names import is_own_data
from bakeoff.suite.tasks.data_files import refuse_damaged
from bakeoff.suite.tasks.own.classes import own_task
from bakeoff.suite.tasks.own.data import own_data_task
from bakeoff.suite.tasks.task import DataSource, Task, TaskError

TASKS: dict[str, str] = {
    # language modelling
    "shakespeare_characters": "bakeoff.suite.tasks.shakespeare_characters:ShakespeareCharacters",
    "shakespeare_tragedies": "bakeoff.suite.tasks.shakespeare_characters:ShakespeareTragedies",
    "shakespeare_act": "bakeoff.suite.tasks.shakespeare_characters:ShakespeareAct",
    "shakespeare_masked": "bakeoff.suite.tasks.shakespeare_masked:ShakespeareMasked",
    "wikipedia_bytes": "bakeoff.suite.tasks.wikipedia_bytes:WikipediaBytes",
    "enwik8": "bakeoff.suite.tasks.enwik8:Enwik8",
    # classification of images and text
    "fashion_mnist_images": "bakeoff.suite.tasks.images.fashion_mnist:FashionMnistImages",
    "fashion_mnist_pixels": "bakeoff.suite.tasks.images.fashion_mnist:FashionMnistPixels",
    "fashion_mnist_patches": "bakeoff.suite.tasks.images.fashion_mnist:FashionMnistPatches",
    "fashion_mnist_full": "bakeoff.suite.tasks.images.fashion_mnist_full:FashionMnistFull",
    "fashion_mnist_corrupted": "bakeoff.suite.tasks.images.corrupted:FashionMnistCorrupted",
    "openmoji_corrupted": "bakeoff.suite.tasks.images.corrupted:OpenmojiCorrupted",
    "openmoji_groups": "bakeoff.suite.tasks.images.openmoji:OpenmojiGroups",
    "fashion_mnist_14": "bakeoff.suite.tasks.images.halved:FashionMnistHalved",
    "openmoji_groups_16": "bakeoff.suite.tasks.images.halved:OpenmojiHalved",
    "digits_images": "bakeoff.suite.tasks.images.digits_images:DigitsImages",
    "cifar10": "bakeoff.suite.tasks.images.cifar10:Cifar10",
    "tiny_imagenet": "bakeoff.suite.tasks.images.tiny_imagenet:TinyImagenet",
    "movie_reviews": "bakeoff.suite.tasks.movie_reviews:MovieReviews",
    "wordnet_glosses": "bakeoff.suite.tasks.wordnet_glosses:WordnetGlosses",
    "shakespeare_plays": "bakeoff.suite.tasks.shakespeare_plays:ShakespearePlays",
    "imdb": "bakeoff.suite.tasks.imdb:Imdb",
    # texts without labels, and with labels in the same words
    "definitions_masked": "bakeoff.suite.tasks.pretraining.masked_words:DefinitionsMasked",
    "definitions_masked_5": "bakeoff.suite.tasks.pretraining.masked_words:DefinitionsMasked5",
    "definitions_masked_40": "bakeoff.suite.tasks.pretraining.masked_words:DefinitionsMasked40",
    "definitions_masked_only": "bakeoff.suite.tasks.pretraining.masked_words:DefinitionsMaskedOnly",
    "definitions_spans": "bakeoff.suite.tasks.pretraining.masked_words:DefinitionsSpans",
    "definitions_pairs": "bakeoff.suite.tasks.pretraining.masked_words:DefinitionsPairs",
    "definitions_next": "bakeoff.suite.tasks.pretraining.next_words:DefinitionsNext",
    "definitions_prefix": "bakeoff.suite.tasks.pretraining.next_words:DefinitionsPrefix",
    "wikipedia_masked": "bakeoff.suite.tasks.pretraining.masked_words:WikipediaMasked",
    "plays_masked": "bakeoff.suite.tasks.pretraining.masked_words:PlaysMasked",
    "english_masked": "bakeoff.suite.tasks.pretraining.masked_words:EnglishMasked",
    "reviews_in_words": "bakeoff.suite.tasks.pretraining.labelled:ReviewsInWords",
    "glosses_in_words": "bakeoff.suite.tasks.pretraining.labelled:GlossesInWords",
    "plays_in_words": "bakeoff.suite.tasks.pretraining.labelled:PlaysInWords",
    # generated: what a mixer can remember and compute
    "listops": "bakeoff.suite.tasks.listops:ListOps",
    "mqar": "bakeoff.suite.tasks.mqar:Mqar",
    "mqar_small": "bakeoff.suite.tasks.mqar:MqarSmall",
    "selective_copying": "bakeoff.suite.tasks.selective_copying:SelectiveCopying",
    "parity": "bakeoff.suite.tasks.parity:Parity",
    "kernel_regression": "bakeoff.suite.tasks.kernel_regression:KernelRegression",
    "sort_of_clevr": "bakeoff.suite.tasks.sort_of_clevr:SortOfClevr",
    # the Long Range Arena and long recall
    "pathfinder": "bakeoff.suite.tasks.long_range.pathfinder:Pathfinder",
    "pathfinder_small": "bakeoff.suite.tasks.long_range.pathfinder:PathfinderSmall",
    "pathfinder_x": "bakeoff.suite.tasks.long_range.pathfinder:PathfinderX",
    "retrieval": "bakeoff.suite.tasks.long_range.retrieval:Retrieval",
    "duplication": "bakeoff.suite.tasks.long_range.duplication:Duplication",
    "needle": "bakeoff.suite.tasks.long_range.needles:Needle",
    "needles": "bakeoff.suite.tasks.long_range.needles:Needles",
    "variable_tracking": "bakeoff.suite.tasks.long_range.needles:VariableTracking",
    # translation
    "bible_en_de": "bakeoff.suite.tasks.sequence_to_sequence.bible:BibleEnDe",
    "bible_en_fr": "bakeoff.suite.tasks.sequence_to_sequence.bible:BibleEnFr",
    "multi30k_en_de": "bakeoff.suite.tasks.sequence_to_sequence.multi30k:Multi30kEnDe",
    "multi30k_de_en": "bakeoff.suite.tasks.sequence_to_sequence.multi30k:Multi30kDeEn",
    # pictures and words
    "emoji_scenes": "bakeoff.suite.tasks.emoji.emoji_scenes:EmojiScenes",
    "emoji_names": "bakeoff.suite.tasks.emoji.emoji_names:EmojiNames",
    "flickr8k_captions": "bakeoff.suite.tasks.photos.flickr8k:Flickr8kCaptions",
    "coco_captions": "bakeoff.suite.tasks.photos.coco:CocoCaptions",
    "emoji_questions": "bakeoff.suite.tasks.emoji.emoji_questions:EmojiQuestions",
    "emoji_pairs": "bakeoff.suite.tasks.emoji.emoji_pairs:EmojiPairs",
    "emoji_pictures": "bakeoff.suite.tasks.emoji.emoji_pictures:EmojiPictures",
    "emoji_tokens": "bakeoff.suite.tasks.emoji.emoji_tokens:EmojiTokens",
    # generated: worlds to act in, by the player of the training episodes
    "corridor_mixed": "bakeoff.suite.tasks.worlds.corridor:CorridorMixed",
    "corridor_best_tenth": "bakeoff.suite.tasks.worlds.corridor:CorridorBestTenth",
    "corridor_random": "bakeoff.suite.tasks.worlds.corridor:CorridorRandom",
    "corridor_medium": "bakeoff.suite.tasks.worlds.corridor:CorridorMedium",
    "corridor_expert": "bakeoff.suite.tasks.worlds.corridor:CorridorExpert",
    "windy_grid_mixed": "bakeoff.suite.tasks.worlds.windy_grid:WindyGridMixed",
    "windy_grid_best_tenth": "bakeoff.suite.tasks.worlds.windy_grid:WindyGridBestTenth",
    "windy_grid_random": "bakeoff.suite.tasks.worlds.windy_grid:WindyGridRandom",
    "windy_grid_medium": "bakeoff.suite.tasks.worlds.windy_grid:WindyGridMedium",
    "windy_grid_expert": "bakeoff.suite.tasks.worlds.windy_grid:WindyGridExpert",
    "cart_pole_mixed": "bakeoff.suite.tasks.worlds.cart_pole:CartPoleMixed",
    "cart_pole_best_tenth": "bakeoff.suite.tasks.worlds.cart_pole:CartPoleBestTenth",
    "cart_pole_random": "bakeoff.suite.tasks.worlds.cart_pole:CartPoleRandom",
    "cart_pole_medium": "bakeoff.suite.tasks.worlds.cart_pole:CartPoleMedium",
    "cart_pole_expert": "bakeoff.suite.tasks.worlds.cart_pole:CartPoleExpert",
    # generated: sequences to rewrite
    "copying": "bakeoff.suite.tasks.sequence_to_sequence.digits:Copying",
    "reversal": "bakeoff.suite.tasks.sequence_to_sequence.digits:Reversal",
    "sorting": "bakeoff.suite.tasks.sequence_to_sequence.digits:Sorting",
}


def task_class(name: str) -> type[Task]:
    """Return the class of a task.

    Args:
        name: A key of `TASKS`; the user's own class, as ``my_task:MyTask``; or own data, as
            ``TextFile("my.txt")``.

    Raises:
        TaskError: if no task has that name, or if the user's class or data do not make a task.
    """
    if is_own_data(name):
        return own_data_task(name)
    if ":" in name:
        return own_task(name, TASKS)
    if name not in TASKS:
        raise TaskError(_unknown(name))
    found: type[Task] = resolve_name(TASKS[name])
    return found


_OWN_DATA = {
    ".csv": 'Table("{}", text=..., label=...)',
    ".tsv": 'Table("{}", text=..., label=...) or Pairs("{}", ...)',
    ".parquet": 'Table("{}", text=..., label=...)',
    ".jsonl": 'Table("{}", text=..., label=...)',
    ".txt": 'TextFile("{}")',
    ".npz": 'Arrays("{}")',
}


def _unknown(name: str) -> str:
    """Return the message for a name of no task, which may be the path of a file."""
    if spelling := _OWN_DATA.get(PurePath(name).suffix.lower()):
        return f"no task {name!r}. A task of a file is written {spelling.replace('{}', name)}."
    own = "Your own is written module:Class, own data as Table(...) or TextFile(...)."
    return f"{unknown_name('task', name, TASKS)} {own}"


def build_task(name: str, length: int, num_training_examples: int | None = None) -> Task:
    """Return the task at a sequence length in tokens.

    Args:
        name: The name of the task.
        length: The sequence length in tokens.
        num_training_examples: The number of its labelled examples to train on, or None for all.

    Raises:
        TaskError: if no task has that name, the length does not suit it, or it has fewer labelled
            examples.
    """
    task = task_class(name)(length)
    if num_training_examples is not None:
        task.train_on(num_training_examples)
    return task


def data_sources() -> list[DataSource]:
    """Return the data sets of all tasks, each once, in the order of the table."""
    return list(dict.fromkeys(task_class(name).source for name in TASKS))


def verify_data() -> list[tuple[DataSource, str]]:
    """Return each data set with the problem of its file: an empty string, or one sentence."""
    problems = dict.fromkeys(data_sources(), "")
    for source in problems:
        try:
            refuse_damaged(source)
        except TaskError as error:
            problems[source] = str(error)
    return list(problems.items())

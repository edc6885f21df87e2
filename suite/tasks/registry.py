"""The table of all tasks, one line each, resolved on first use.

Importing this module loads no task and no data.
"""

from __future__ import annotations

from pkgutil import resolve_name

from suite.errors import unknown_name
from suite.tasks.data_files import refuse_damaged
from suite.tasks.task import DataSource, Task, TaskError

TASKS: dict[str, str] = {
    # language modelling
    "shakespeare_characters": "suite.tasks.shakespeare_characters:ShakespeareCharacters",
    "shakespeare_tragedies": "suite.tasks.shakespeare_characters:ShakespeareTragedies",
    "shakespeare_act": "suite.tasks.shakespeare_characters:ShakespeareAct",
    "shakespeare_masked": "suite.tasks.shakespeare_masked:ShakespeareMasked",
    "wikipedia_bytes": "suite.tasks.wikipedia_bytes:WikipediaBytes",
    "enwik8": "suite.tasks.enwik8:Enwik8",
    # classification of images and text
    "fashion_mnist_images": "suite.tasks.images.fashion_mnist:FashionMnistImages",
    "fashion_mnist_pixels": "suite.tasks.images.fashion_mnist:FashionMnistPixels",
    "fashion_mnist_patches": "suite.tasks.images.fashion_mnist:FashionMnistPatches",
    "fashion_mnist_full": "suite.tasks.images.fashion_mnist_full:FashionMnistFull",
    "fashion_mnist_corrupted": "suite.tasks.images.corrupted:FashionMnistCorrupted",
    "openmoji_corrupted": "suite.tasks.images.corrupted:OpenmojiCorrupted",
    "openmoji_groups": "suite.tasks.images.openmoji:OpenmojiGroups",
    "fashion_mnist_14": "suite.tasks.images.halved:FashionMnistHalved",
    "openmoji_groups_16": "suite.tasks.images.halved:OpenmojiHalved",
    "digits_images": "suite.tasks.images.digits_images:DigitsImages",
    "cifar10": "suite.tasks.images.cifar10:Cifar10",
    "tiny_imagenet": "suite.tasks.images.tiny_imagenet:TinyImagenet",
    "movie_reviews": "suite.tasks.movie_reviews:MovieReviews",
    "wordnet_glosses": "suite.tasks.wordnet_glosses:WordnetGlosses",
    "shakespeare_plays": "suite.tasks.shakespeare_plays:ShakespearePlays",
    "imdb": "suite.tasks.imdb:Imdb",
    # texts without labels, and with labels in the same words
    "definitions_masked": "suite.tasks.pretraining.masked_words:DefinitionsMasked",
    "definitions_masked_5": "suite.tasks.pretraining.masked_words:DefinitionsMasked5",
    "definitions_masked_40": "suite.tasks.pretraining.masked_words:DefinitionsMasked40",
    "definitions_masked_only": "suite.tasks.pretraining.masked_words:DefinitionsMaskedOnly",
    "definitions_spans": "suite.tasks.pretraining.masked_words:DefinitionsSpans",
    "definitions_pairs": "suite.tasks.pretraining.masked_words:DefinitionsPairs",
    "definitions_next": "suite.tasks.pretraining.next_words:DefinitionsNext",
    "definitions_prefix": "suite.tasks.pretraining.next_words:DefinitionsPrefix",
    "wikipedia_masked": "suite.tasks.pretraining.masked_words:WikipediaMasked",
    "plays_masked": "suite.tasks.pretraining.masked_words:PlaysMasked",
    "english_masked": "suite.tasks.pretraining.masked_words:EnglishMasked",
    "reviews_in_words": "suite.tasks.pretraining.labelled:ReviewsInWords",
    "glosses_in_words": "suite.tasks.pretraining.labelled:GlossesInWords",
    "plays_in_words": "suite.tasks.pretraining.labelled:PlaysInWords",
    # generated: what a mixer can remember and compute
    "listops": "suite.tasks.listops:ListOps",
    "mqar": "suite.tasks.mqar:Mqar",
    "mqar_small": "suite.tasks.mqar:MqarSmall",
    "selective_copying": "suite.tasks.selective_copying:SelectiveCopying",
    "parity": "suite.tasks.parity:Parity",
    "kernel_regression": "suite.tasks.kernel_regression:KernelRegression",
    "sort_of_clevr": "suite.tasks.sort_of_clevr:SortOfClevr",
    # the Long Range Arena and long recall
    "pathfinder": "suite.tasks.long_range.pathfinder:Pathfinder",
    "pathfinder_small": "suite.tasks.long_range.pathfinder:PathfinderSmall",
    "pathfinder_x": "suite.tasks.long_range.pathfinder:PathfinderX",
    "retrieval": "suite.tasks.long_range.retrieval:Retrieval",
    "duplication": "suite.tasks.long_range.duplication:Duplication",
    "needle": "suite.tasks.long_range.needles:Needle",
    "needles": "suite.tasks.long_range.needles:Needles",
    "variable_tracking": "suite.tasks.long_range.needles:VariableTracking",
    # translation
    "bible_en_de": "suite.tasks.sequence_to_sequence.bible:BibleEnDe",
    "bible_en_fr": "suite.tasks.sequence_to_sequence.bible:BibleEnFr",
    "multi30k_en_de": "suite.tasks.sequence_to_sequence.multi30k:Multi30kEnDe",
    "multi30k_de_en": "suite.tasks.sequence_to_sequence.multi30k:Multi30kDeEn",
    # pictures and words
    "emoji_scenes": "suite.tasks.emoji.emoji_scenes:EmojiScenes",
    "emoji_names": "suite.tasks.emoji.emoji_names:EmojiNames",
    "flickr8k_captions": "suite.tasks.photos.flickr8k:Flickr8kCaptions",
    "coco_captions": "suite.tasks.photos.coco:CocoCaptions",
    "emoji_questions": "suite.tasks.emoji.emoji_questions:EmojiQuestions",
    "emoji_pairs": "suite.tasks.emoji.emoji_pairs:EmojiPairs",
    "emoji_pictures": "suite.tasks.emoji.emoji_pictures:EmojiPictures",
    "emoji_tokens": "suite.tasks.emoji.emoji_tokens:EmojiTokens",
    # generated: worlds to act in, by the player of the training episodes
    "corridor_mixed": "suite.tasks.worlds.corridor:CorridorMixed",
    "corridor_best_tenth": "suite.tasks.worlds.corridor:CorridorBestTenth",
    "corridor_random": "suite.tasks.worlds.corridor:CorridorRandom",
    "corridor_medium": "suite.tasks.worlds.corridor:CorridorMedium",
    "corridor_expert": "suite.tasks.worlds.corridor:CorridorExpert",
    "windy_grid_mixed": "suite.tasks.worlds.windy_grid:WindyGridMixed",
    "windy_grid_best_tenth": "suite.tasks.worlds.windy_grid:WindyGridBestTenth",
    "windy_grid_random": "suite.tasks.worlds.windy_grid:WindyGridRandom",
    "windy_grid_medium": "suite.tasks.worlds.windy_grid:WindyGridMedium",
    "windy_grid_expert": "suite.tasks.worlds.windy_grid:WindyGridExpert",
    "cart_pole_mixed": "suite.tasks.worlds.cart_pole:CartPoleMixed",
    "cart_pole_best_tenth": "suite.tasks.worlds.cart_pole:CartPoleBestTenth",
    "cart_pole_random": "suite.tasks.worlds.cart_pole:CartPoleRandom",
    "cart_pole_medium": "suite.tasks.worlds.cart_pole:CartPoleMedium",
    "cart_pole_expert": "suite.tasks.worlds.cart_pole:CartPoleExpert",
    # generated: sequences to rewrite
    "copying": "suite.tasks.sequence_to_sequence.digits:Copying",
    "reversal": "suite.tasks.sequence_to_sequence.digits:Reversal",
    "sorting": "suite.tasks.sequence_to_sequence.digits:Sorting",
}


def task_class(name: str) -> type[Task]:
    """Return the class of a task.

    Raises:
        TaskError: if no task has that name.
    """
    if name not in TASKS:
        raise TaskError(unknown_name("task", name, TASKS))
    found: type[Task] = resolve_name(TASKS[name])
    return found


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

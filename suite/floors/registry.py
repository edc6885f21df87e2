"""The table of floors: name -> "module:Class", resolved on first use."""

from __future__ import annotations

from functools import cache
from pkgutil import resolve_name

from suite.floors.floor import Floor

FLOORS: dict[str, str] = {
    # of any classification, and of text
    "uniform": "suite.floors.uniform:Uniform",
    "majority": "suite.floors.majority:Majority",
    "first_symbol": "suite.floors.first_symbol:FirstSymbol",
    # of pictures, and of other numbers
    "logistic_regression": "suite.floors.logistic_regression:LogisticRegressionFloor",
    "nearest_centroid": "suite.floors.nearest:NearestCentroid",
    "nearest_neighbours": "suite.floors.nearest:NearestNeighbours",
    # of examples that show their answers
    "shown_answers": "suite.floors.shown_answers:ShownAnswers",
    # of text, symbol by symbol
    "trigram": "suite.floors.ngram:Trigram",
    "five_gram": "suite.floors.ngram:FiveGram",
    # of whole texts
    "tf_idf": "suite.floors.tf_idf:TfIdf",
    # of pairs of sequences
    "shared_substrings": "suite.floors.shared_substrings:SharedSubstrings",
    # of sequences that are written
    "copied_source": "suite.floors.copied_source:CopiedSource",
    "word_by_word": "suite.floors.word_by_word:WordByWord",
    "likeliest_sequence": "suite.floors.likeliest_sequence:LikeliestSequence",
    # of pictures and words
    "nearest_caption": "suite.floors.nearest_caption:NearestCaption",
    "nearest_choice": "suite.floors.nearest_caption:NearestChoice",
    "mean_picture": "suite.floors.pictures:MeanPicture",
    "nearest_drawing": "suite.floors.pictures:NearestDrawing",
    "question_alone": "suite.floors.question_alone:QuestionAlone",
    # of worlds
    "random_player": "suite.floors.players:RandomPlayer",
    "mean_of_data": "suite.floors.players:MeanOfData",
    # of numbers
    "mean": "suite.floors.nadaraya_watson:Mean",
    "nadaraya_watson": "suite.floors.nadaraya_watson:NadarayaWatson",
}


@cache
def floor(name: str) -> Floor:
    """The floor of that name; tasks name shipped ones only."""
    made: Floor = resolve_name(FLOORS[name])()
    return made

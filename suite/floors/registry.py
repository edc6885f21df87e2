"""The table of floors, by name."""

from __future__ import annotations

from bakeoff.suite.floors import constant, counting, numbers, task_specific, vectors
from bakeoff.suite.floors.floor import Floor

FLOORS: dict[str, Floor] = {
    each.name: each()
    for each in (
        constant.Uniform,
        constant.Majority,
        constant.ShownAnswers,
        constant.LikeliestSequence,
        constant.MeanPicture,
        counting.FirstSymbol,
        counting.QuestionAlone,
        counting.CopiedSource,
        counting.WordByWord,
        counting.SharedSubstrings,
        counting.Trigram,
        counting.FiveGram,
        vectors.LogisticRegressionFloor,
        vectors.TfIdf,
        vectors.NearestCentroid,
        vectors.NearestNeighbours,
        vectors.NearestCaption,
        vectors.NearestChoice,
        vectors.NearestDrawing,
        task_specific.RandomPlayer,
        task_specific.MeanOfData,
        task_specific.Mean,
        task_specific.NadarayaWatson,
        numbers.MeanAnswer,
        numbers.RidgeRegression,
    )
}

"""The contract of a floor: a method without an architecture, scored as a task scores a model.

A floor learns from what models learn from, chooses on the validation split what it has to choose,
and reads the test split once, for its score. It opens no file: the task hands it everything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from suite.tasks.task import Task


class Floor(ABC):
    """One method. A file holds one, or several that differ in a number.

    Attributes:
        name: As tasks name it, a key of `suite.floors.registry.FLOORS`.
        label: As tables name it.
        version: Goes up whenever a change moves a number.
        needs: What it must be given, in a few words: of the task, and of the machine.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    version: ClassVar[int]
    needs: ClassVar[str]

    def label_on(self, task: type[Task]) -> str:
        """Its label in the tables of that task."""
        return self.label

    def why_not(self) -> str:
        """Why this machine cannot compute it; empty where it can."""
        return ""

    @abstractmethod
    def suits(self, task: type[Task]) -> bool:
        """Whether the task has what the floor needs."""

    @abstractmethod
    def score(self, task: Task) -> float:
        """The task's metric on its test split.

        Raises:
            TaskError: if the data are missing or altered.
        """

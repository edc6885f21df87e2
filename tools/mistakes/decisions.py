"""Bugs of a model that acts, of the worlds that it acts in, and of how it plays."""

from __future__ import annotations

from mistakes import Mutant


def _of_model(mistake: str, old: str, new: str, tests: str) -> Mutant:
    folder = "architectures/decisions"
    return Mutant(
        mistake,
        f"{folder}/decision_transformer.py",
        old,
        new,
        tests,
        battery=f"{folder}/test_decision_transformer.py",
    )


def _of_world(mistake: str, file: str, old: str, new: str, tests: str, battery: str) -> Mutant:
    folder = "tasks/worlds"
    return Mutant(
        mistake, f"{folder}/{file}", old, new, tests, battery=f"{folder}/{battery}", room="suite"
    )


def _of_playing(mistake: str, old: str, new: str, tests: str) -> Mutant:
    return _of_world(mistake, "playing.py", old, new, tests, "test_playing.py")


def _of_data(mistake: str, old: str, new: str, tests: str) -> Mutant:
    return _of_world(mistake, "episodes.py", old, new, tests, "test_episodes.py")


MUTANTS_OF_DECISIONS: tuple[Mutant, ...] = (
    _of_model(
        "an action is read at its own token",
        "self.head(hidden[:, :, -2])",
        "self.head(hidden[:, :, -1])",
        "sees_no_action",
    ),
    _of_model(
        "padding is attended",
        "hidden = self.trunk(flat, real)",
        "hidden = self.trunk(flat, None)",
        "attention and (padding or wherever)",
    ),
    _of_model(
        "actions at padding are read",
        "self._tokens(inputs, _real(actions, mask), returns",
        "self._tokens(inputs, actions, returns",
        "padding_is_never_read",
    ),
    _of_model(
        "the return stands behind the state",
        "found.insert(0, self.asked",
        "found.insert(2, self.asked",
        "sees",
    ),
    _of_model(
        "returns are multiplied by their scale",
        "/ self.config.return_scale",
        "* self.config.return_scale",
        "scale",
    ),
    _of_playing(
        "what was got is still asked for",
        "history.asked[rows, time] - rewards",
        "history.asked[rows, time]",
        "asked_for_no_more or loop",
    ),
    _of_playing(
        "the window is one step too long",
        "first = max(0, time + 1 - length)",
        "first = max(0, time - length)",
        "never_longer",
    ),
    _of_playing(
        "the action before the last is not remembered",
        "history.actions[rows, time] = chosen",
        "history.actions[rows, time] = 0",
        "loop",
    ),
    _of_playing(
        "the score is of the least return asked for",
        "for each in reversed(range(self.num_levels))",
        "for each in range(self.num_levels)",
        "best_return",
    ),
    _of_world(
        "rewards count after the end",
        "episodes.py",
        "rewards[is_on, time] = gained[is_on]",
        "rewards[:, time] = gained",
        "after_the_end",
        "test_worlds.py",
    ),
    _of_data(
        "what is to go is what was got",
        "np.cumsum(self.rewards[:, ::-1], axis=1)[:, ::-1]",
        "np.cumsum(self.rewards, axis=1)",
        "to_go",
    ),
    _of_data(
        "the best are the worst",
        "np.argsort(-self.returns",
        "np.argsort(self.returns",
        "best_tenth",
    ),
    _of_data(
        "episodes are drawn alike, however long",
        "chosen = stream.integers(count, low=0, high=int(ends[-1]))",
        "chosen = ends[stream.integers(count, low=0, high=len(ends))] - 1",
        "begins_as_many",
    ),
    _of_world(
        "the door opens without the key",
        "corridor.py",
        "np.where(has_key == 1, 1.0, self.without_key)",
        "np.where(has_key == has_key, 1.0, self.without_key)",
        "corridor",
        "test_worlds.py",
    ),
    _of_world(
        "wind always blows",
        "windy_grid.py",
        "(chances[:, 0] < self.wind)",
        "(chances[:, 0] < 1)",
        "wind_blows",
        "test_worlds.py",
    ),
    _of_world(
        "the pole's speed is used as it will be",
        "cart_pole.py",
        "moved = situation + self.interval * changes",
        "moved = situation + self.interval * (changes + self.interval * changes[:, [1, 1, 3, 3]])",
        "equations",
        "test_worlds.py",
    ),
)

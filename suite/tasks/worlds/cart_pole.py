"""Balance a pole on a cart that is pushed to the left or to the right.

Barto, Sutton and Anderson 1983, "Neuronlike adaptive elements that can solve difficult learning
control problems" (IEEE Transactions on Systems, Man, and Cybernetics 13(5)), with the constants and
the Euler integration of Gym's CartPole-v1 (Brockman et al. 2016, arXiv:1606.01540). With the
position x of the cart, the angle a of the pole, the total mass M, m and l the pole's mass and half
length, F the force:

    q   = (F + m l a'^2 sin a) / M
    a'' = (g sin a - q cos a) / (l (4/3 - m cos^2 a / M))
    x'' = q - m l a'' cos a / M

    seen       position, velocity, angle and angular velocity, divided by their typical maxima
    actions    a push to the left, to the right
    reward     1 / limit for each step, so a return is the share of the steps with the pole upright
    end        |x| above 2.4 m or |a| above 12 degrees
    start      each of the four uniform between -0.05 and 0.05
    medium     pushes in the direction in which the pole leans, ignoring velocities
    expert     pushes by a weighted sum of all four

The mean returns of the random player, the medium one and the expert, over 2,000 episodes, are 0.22,
0.44 and 1.00; the latter two take a random action in one of ten steps.

There is one departure: episodes have at most 100 steps, not 500, so that a model can play many
episodes.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.data_order import Whole
from bakeoff.suite.tasks.worlds.world import EXPERT, Moved, Numbers, World
from bakeoff.suite.tasks.worlds.world_task import (
    BEST_TENTH,
    ONLY_EXPERT,
    ONLY_MEDIUM,
    ONLY_RANDOM,
    WorldTask,
    world_source,
)


class CartPole(World):
    """The cart-pole environment."""

    state_size = 4
    num_actions = 2
    limit = 100
    gravity: ClassVar[float] = 9.8  # m / s^2
    cart_mass: ClassVar[float] = 1.0  # kg
    pole_mass: ClassVar[float] = 0.1
    half_length: ClassVar[float] = 0.5  # m, of the pole
    force: ClassVar[float] = 10.0  # N
    interval: ClassVar[float] = 0.02  # s
    farthest: ClassVar[float] = 2.4  # m
    steepest: ClassVar[float] = 12 * 2 * math.pi / 360
    spread: ClassVar[float] = 0.05
    reached: ClassVar[tuple[float, ...]] = (2.4, 2.0, 0.2, 2.0)
    weights: ClassVar[tuple[float, ...]] = (0.1, 0.3, 1.0, 0.5)

    def start(self, chances: Numbers) -> Numbers:
        """Return four small uniform numbers for each episode."""
        return (2 * chances - 1) * self.spread

    def seen(self, situation: Numbers) -> NDArray[np.float32]:
        """Return the four numbers divided by `reached`."""
        found: NDArray[np.float32] = (situation / np.array(self.reached)).astype(np.float32)
        return found

    def step(self, situation: Numbers, actions: Whole, time: int, chances: Numbers) -> Moved:
        """Return the next situation; it is deterministic."""
        _, speed, angle, turning = situation.T
        mass = self.cart_mass + self.pole_mass
        push = np.where(actions == 1, self.force, -self.force)
        sine, cosine = np.sin(angle), np.cos(angle)
        share = (push + self.pole_mass * self.half_length * turning**2 * sine) / mass
        turned = (self.gravity * sine - cosine * share) / (
            self.half_length * (4 / 3 - self.pole_mass * cosine**2 / mass)
        )
        pushed = share - self.pole_mass * self.half_length * turned * cosine / mass
        changes = np.stack([speed, pushed, turning, turned], axis=1)
        moved = situation + self.interval * changes
        has_ended = (np.abs(moved[:, 0]) > self.farthest) | (np.abs(moved[:, 2]) > self.steepest)
        return Moved(moved, np.full(len(moved), 1 / self.limit), has_ended)

    def chosen(self, player: int, situation: Numbers) -> Whole:
        """Return the side to which the player pushes without a mistake."""
        weights = np.array(self.weights if player == EXPERT else (0.0, 0.0, 1.0, 0.0))
        found: Whole = (situation @ weights > 0).astype(np.int64)
        return found


CART_POLE = CartPole()
_TITLE = "A pole on a cart"
_ORIGIN = "Barto, Sutton and Anderson 1983"


class CartPoleMixed(WorldTask):
    """Cart-pole with episodes of all three players."""

    name = "cart_pole_mixed"
    world = CART_POLE
    source = world_source(CART_POLE, name, _TITLE, _ORIGIN)


class CartPoleBestTenth(WorldTask):
    """Cart-pole with the best tenth of the mixed episodes, by return."""

    name = "cart_pole_best_tenth"
    world = CART_POLE
    best = BEST_TENTH
    source = world_source(CART_POLE, name, _TITLE, _ORIGIN)


class CartPoleRandom(WorldTask):
    """Cart-pole with episodes of the random player."""

    name = "cart_pole_random"
    world = CART_POLE
    shares = ONLY_RANDOM
    source = world_source(CART_POLE, name, _TITLE, _ORIGIN)


class CartPoleMedium(WorldTask):
    """Cart-pole with episodes of the medium player."""

    name = "cart_pole_medium"
    world = CART_POLE
    shares = ONLY_MEDIUM
    source = world_source(CART_POLE, name, _TITLE, _ORIGIN)


class CartPoleExpert(WorldTask):
    """Cart-pole with episodes of the expert."""

    name = "cart_pole_expert"
    world = CART_POLE
    shares = ONLY_EXPERT
    source = world_source(CART_POLE, name, _TITLE, _ORIGIN)

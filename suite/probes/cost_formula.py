"""Evaluate the complexity formulas of `bakeoff.models.mixer.Cost` at a length.

A formula is parsed to a tree and evaluated node by node in floating point. It is never executed as
code, because mixers may come from third parties.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bakeoff.models.errors import ModelError

if TYPE_CHECKING:
    from bakeoff.models.mixer import Mixer

_LONGEST = 200  # characters; this also limits the depth of the tree
_OPERATIONS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,  # for floats only, so the result is never complex
}
_ALLOWED = "numbers, + - * / **, brackets and log2(...)"


def evaluate(mixer: Mixer, formula: str, length: int) -> float | None:
    """Evaluate a formula of the mixer's `Cost` at a length.

    Args:
        mixer: The mixer, which defines d and, by `Mixer.cost_symbols`, the values of k and r.
        formula: The formula in the syntax of `Cost`; empty if the theory has none.
        length: The number of tokens, n.

    Returns:
        The value, without the constant factors that the theory leaves out, or None for an empty
        formula.

    Raises:
        ModelError: if the formula is malformed, or has a name that the mixer does not define.
    """
    if not formula:
        return None
    symbols = {"n": float(length), "d": float(mixer.dim), **mixer.cost_symbols()}
    return value_of(formula, symbols)


def value_of(formula: str, symbols: Mapping[str, float]) -> float:
    """Return the value of a formula, with a number for each name.

    Raises:
        ModelError: if the formula has anything but arithmetic with these names and log2, or if its
            value is not finite.
    """
    if len(formula) > _LONGEST:
        raise ModelError(f"a formula of {len(formula)} characters is too long ({_LONGEST} at most)")
    try:
        return _value(ast.parse(formula.strip(), mode="eval").body, symbols)
    except (SyntaxError, ValueError) as error:
        reason = "is not an expression" if isinstance(error, SyntaxError) else str(error)
    except ArithmeticError as error:
        reason = f"has no finite value ({error})"
    raise ModelError(f"the formula {formula!r} {reason}")


def _value(node: ast.expr, symbols: Mapping[str, float]) -> float:
    """Evaluate a node and all nodes below it.

    Raises:
        ValueError: with the end of a sentence that begins with the formula.
        ArithmeticError: for a division by zero, the logarithm of zero or less, or an overflow.
    """
    match node:
        case ast.Constant(value=number) if type(number) in (int, float):
            return _finite(float(number))  # type: ignore[arg-type]
        case ast.Name(id=name) if name in symbols:
            return float(symbols[name])
        case ast.Name(id=name):
            raise ValueError(f"names {name!r}, which is not one of {', '.join(sorted(symbols))}")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, symbols)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            sides = _value(left, symbols), _value(right, symbols)
            return _worked_out(_OPERATIONS[type(op)], *sides)
        case ast.Call(func=ast.Name(id="log2"), args=[argument], keywords=[]):
            return _worked_out(math.log2, _value(argument, symbols))
    raise ValueError(f"has {ast.unparse(node)!r} in it; allowed are {_ALLOWED}")


def _worked_out(operation: Callable[..., float], *sides: float) -> float:
    try:
        return _finite(operation(*sides))
    except ValueError as error:  # raised by `math` if there is no real result
        raise ArithmeticError(str(error)) from None


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise OverflowError("a number beyond all bounds")
    return value

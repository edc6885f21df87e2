"""Evaluate the complexity formulas of `models.mixer.Cost` at a length.

A formula is read as a tree and worked out node by node, in floating point: nothing that stands in
it is ever run, since a mixer may be anybody's.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from models.errors import ModelError

if TYPE_CHECKING:
    from models.mixer import Mixer

_LONGEST = 200  # characters; keeps the tree shallow too
_OPERATIONS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,  # of floats alone, and never complex
}
_ALLOWED = "numbers, + - * / **, brackets and log2(...)"


def evaluate(mixer: Mixer, formula: str, length: int) -> float | None:
    """A formula of the mixer's `Cost`, at so many tokens.

    Args:
        mixer: Gives d, and by `Mixer.cost_symbols` the values of k and r.
        formula: As `Cost` has it; empty where the theory says nothing.
        length: n.

    Returns:
        The number, without the constant factors that the theory leaves out; None for an empty
        formula.

    Raises:
        ModelError: a malformed formula, or one that names what the mixer does not say.
    """
    if not formula:
        return None
    symbols = {"n": float(length), "d": float(mixer.dim), **mixer.cost_symbols()}
    return value_of(formula, symbols)


def value_of(formula: str, symbols: Mapping[str, float]) -> float:
    """A formula's value, with a number for each name.

    Raises:
        ModelError: anything but arithmetic with these names and log2; a value that is not finite.
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
    """Of a node and all below it.

    Raises:
        ValueError: with the end of a sentence that begins with the formula.
        ArithmeticError: division by zero, a logarithm of nothing, a number beyond all bounds.
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
    except ValueError as error:  # of `math`, where no real number is the answer
        raise ArithmeticError(str(error)) from None


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise OverflowError("a number beyond all bounds")
    return value

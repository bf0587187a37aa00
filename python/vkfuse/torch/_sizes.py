"""Numbers in place of symbolic sizes."""

from __future__ import annotations

from typing import Any

import sympy
import torch

from ._dtypes import NotCovered


class Sizes:
    """What the symbols of a graph are in one call; of a graph without any it knows nothing, and needs nothing."""

    def __init__(self, numbers: dict | None = None) -> None:
        self._numbers = numbers or {}

    def number(self, x: Any) -> Any:
        """A size, a symbolic number or a number, as a number."""
        if not isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return x
        made = x.node.expr.xreplace(self._numbers)
        if made.free_symbols:
            raise NotCovered(f"The size {x} depends on data.")
        kind = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(x)]
        return kind(made)

    def numbers(self, all_of: Any) -> tuple[int, ...]:
        """Sizes or strides as numbers."""
        return tuple(self.number(one) for one in all_of)

    def shape_of(self, value: torch.Tensor) -> tuple[int, ...]:
        """The shape of a fake tensor, in numbers."""
        return self.numbers(value.shape)


def is_symbolic(x: Any) -> bool:
    return isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool))


def known_symbols(placeholders: list, args: Any) -> dict:
    """The numbers of the symbols that the arguments of a call show."""
    numbers: dict = {}

    def learn(symbol: Any, number: Any) -> None:
        if is_symbolic(symbol) and symbol.node.expr.is_Symbol:
            numbers[symbol.node.expr] = sympy.Integer(int(number))

    for node, arg in zip(placeholders, args):
        value = node.meta.get("val")
        if is_symbolic(value):
            learn(value, arg)
        elif isinstance(value, torch.Tensor) and isinstance(arg, torch.Tensor):
            for axis, size in enumerate(value.shape):
                learn(size, arg.shape[axis])
    return numbers

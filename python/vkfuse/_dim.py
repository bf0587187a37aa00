"""Symbolic dimensions."""

from __future__ import annotations


class Dim(str):
    """A dimension whose size is known when the program runs; symbols are equal when their names are.

    A run that breaks a promise (min, max, multiple_of) is refused.
    """

    min: int
    max: int | None
    multiple_of: int

    def __new__(cls, name: str, min: int = 0, max: int | None = None, multiple_of: int = 1) -> Dim:
        made = super().__new__(cls, name)
        made.min, made.max, made.multiple_of = min, max, multiple_of
        return made

    def __getnewargs__(self):
        return str(self), self.min, self.max, self.multiple_of

    def __repr__(self) -> str:
        return f"Dim({str(self)!r})"

    def __hash__(self) -> int:
        return str.__hash__(self)

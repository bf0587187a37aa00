"""Elements: PyTorch's dtypes and those of vkfuse, and what ATen makes of dtypes that differ."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Promotion
from torch._prims_common import elementwise_dtypes

from .. import _core


class NotCovered(Exception):
    """Why a node is left to eager: one sentence."""


NAMES = {
    torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float64: "float64",
    torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.uint16: "uint16", torch.int32: "int32",
    torch.uint32: "uint32", torch.int64: "int64", torch.uint64: "uint64", torch.bool: "bool",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in NAMES.items()}


def name_of(dtype: torch.dtype) -> str:
    """vkfuse's name of a dtype."""
    if dtype not in NAMES:
        raise NotCovered(f"vkfuse has no elements of type {str(dtype).removeprefix('torch.')}.")
    return NAMES[dtype]


def dtype_named(name: str) -> torch.dtype:
    """PyTorch's dtype of a name of vkfuse."""
    return _DTYPES[name]


def dtype_of(x: _core.Tensor) -> torch.dtype:
    """The dtype of a tensor of vkfuse, as PyTorch has it."""
    return _DTYPES[str(x.dtype)]


class _Unrounded(threading.local):
    """Of results of 16 bits the float32 that they were rounded from, by the result. Empty outside of a graph."""

    values: dict | None = None


_unrounded = _Unrounded()


@contextlib.contextmanager
def unrounded_in(values: dict) -> Any:
    """While nodes are lowered: cast() remembers what it rounds, and gives it back where float32 is asked for."""
    before, _unrounded.values = _unrounded.values, values
    try:
        yield
    finally:
        _unrounded.values = before


def has_unrounded(x: _core.Tensor) -> bool:
    """Whether the float32 that x was rounded from is known."""
    return _unrounded.values is not None and id(x) in _unrounded.values


def cast(x: _core.Tensor, dtype: torch.dtype) -> _core.Tensor:
    """x in another dtype; x itself where it has it. Within a graph, what was rounded to 16 bits on the way may be as it
    was before."""
    own, values = dtype_of(x), _unrounded.values
    if own == dtype:
        return x
    if values is not None and dtype == torch.float32 and id(x) in values:
        return values[id(x)][1]
    made = x.astype(name_of(dtype))
    if values is not None and own == torch.float32 and computed_in(dtype) != dtype:
        values[id(made)] = made, x  # both are kept, so that no other tensor has this id
    return made


def scalar(value: Any, dtype: torch.dtype) -> _core.Tensor:
    """A literal of one element. Numbers are converted as ATen converts them: 2.0 is an integer where one is needed."""
    if dtype == torch.bool:
        return _core.scalar(bool(value), "bool")
    return _core.scalar(float(value) if dtype.is_floating_point else int(value), name_of(dtype))


def full(shape: Any, value: Any, dtype: torch.dtype) -> _core.Tensor:
    """A tensor of one value."""
    return scalar(value, dtype).broadcast_to(tuple(shape))


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """What ATen computes in: 16-bit floats in float32."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def promoted(fakes: Any, kind: Promotion) -> tuple[torch.dtype, torch.dtype]:
    """The dtypes that ATen computes in and returns, for operands that are fake tensors and numbers."""
    return elementwise_dtypes(*fakes, type_promotion_kind=kind)


def is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float))


def operand(x: Any, dtype: torch.dtype) -> _core.Tensor:
    """A tensor or a number as an operand of this dtype."""
    return scalar(x, dtype) if is_number(x) else cast(x, dtype)

"""Random numbers. The seed is an operand that each call draws from PyTorch's generator: other numbers in each call, the
same ones after the same torch.manual_seed(), but not those that eager draws."""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import _core as v
from ._dtypes import NotCovered, cast, computed_in, dtype_of, operand, scalar
from ._rules import Call, rule


def _uniform(call: Call, index: int | None = None) -> v.Tensor:
    return v.random_uniform(call.seed(), shape=list(call.shape(index)))


def _refuse_generator(options: dict) -> None:
    if options.get("generator") is not None:
        raise NotCovered("It draws from a generator of the user's.")


@rule("rand.default", "rand_like.default", "rand.generator", "rand_like.generator")
def rand(call: Call, *args: Any, **options: Any) -> v.Tensor:
    _refuse_generator(options)
    return _below_one(_uniform(call), call.dtype())


def _below_one(x: v.Tensor, dtype: torch.dtype) -> v.Tensor:
    """Fewer bits where rounding would give 1."""
    kept = {torch.float16: 11, torch.bfloat16: 8}.get(dtype)
    if kept is None:
        return x
    size = scalar(2**kept, torch.float32)
    return v.div(v.floor(v.mul(x, size)), size)


@rule("randn.default", "randn_like.default", "randn.generator", "randn_like.generator")
def randn(call: Call, *args: Any, **options: Any) -> v.Tensor:
    _refuse_generator(options)
    return v.random_normal(call.seed(), shape=list(call.shape()))


@rule("bernoulli.p", "bernoulli.default", "bernoulli.Tensor")
def bernoulli(call: Call, x: v.Tensor, p: Any = None, **options: Any) -> v.Tensor:
    _refuse_generator(options)
    return v.less(_uniform(call), operand(x if p is None else p, torch.float32))


@rule("native_dropout.default")
def dropout(call: Call, x: v.Tensor, p: float, train: bool | None = True) -> tuple:
    shape = call.shape(0)
    if train is False or p == 0:
        return x, scalar(True, torch.bool).broadcast_to(shape)
    if p == 1:
        return v.mul(x, scalar(0, dtype_of(x))), scalar(False, torch.bool).broadcast_to(shape)
    kept = v.greater_equal(_uniform(call, 0), scalar(p, torch.float32))
    wide = cast(x, computed_in(dtype_of(x)))
    return v.mul(v.mul(wide, cast(kept, dtype_of(wide))), scalar(1 / (1 - p), dtype_of(wide))), kept


@rule("uniform.default")
def uniform(call: Call, x: v.Tensor, low: float = 0.0, high: float = 1.0, **options: Any) -> v.Tensor:
    _refuse_generator(options)
    if call.dtype() not in (torch.float32, torch.float64):
        raise NotCovered("Uniform numbers of 16 bits would be rounded up to their bound.")
    return v.add(v.mul(_uniform(call), scalar(high - low, torch.float32)), scalar(low, torch.float32))


@rule("normal_functional.default")
def normal(call: Call, x: v.Tensor, mean: float = 0.0, deviation: float = 1.0, **options: Any) -> v.Tensor:
    _refuse_generator(options)
    made = v.random_normal(call.seed(), shape=list(call.shape()))
    return v.add(v.mul(made, scalar(deviation, torch.float32)), scalar(mean, torch.float32))


@rule("randint.low", "randint.default", "randint_like.default", "randint_like.low_dtype")
def randint(call: Call, *args: Any, **options: Any) -> v.Tensor:
    _refuse_generator(options)
    bounds = args[1:] if "like" in str(call.node.target) else args[:-1]
    low, high = bounds if len(bounds) == 2 else (0, bounds[0])
    if not 0 < high - low <= 2**24:
        raise NotCovered(f"It draws from {high - low} numbers.")
    # 64 bits of products: each number is as likely as another to 1 in 2^32.
    words = cast(v.random_words(call.seed(), shape=list(call.shape())), torch.uint64)
    drawn = v.shift_right(v.mul(words, scalar(high - low, torch.uint64)), scalar(32, torch.uint64))
    return v.add(cast(drawn, torch.int64), scalar(low, torch.int64))


@rule("randperm.default")
def randperm(call: Call, count: int, **options: Any) -> v.Tensor:
    _refuse_generator(options)
    if math.prod(call.shape()) == 0:
        return scalar(0, torch.int64).broadcast_to(call.shape())
    return cast(v.random_words(call.seed(), shape=[count]).argsort(0), torch.int64)

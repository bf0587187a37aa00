"""Optimisers over nested parameters, for functions of jit(). docs/gradients.md of the project has a program.

>>> optimizer = vkfuse.optimizers.AdamW(weight_decay=0.1)
>>> state = optimizer.init(params)
>>> @vkfuse.jit
... def step(params, state, rate, batch):
...     loss, slopes = vkfuse.value_and_grad(loss_of)(params, batch)
...     params, state = optimizer.step(params, slopes, state, rate)
...     return loss, params, state

Parameters are arrays or tensors of floats, best float32, nested in dicts, lists and tuples; gradients and states are
nested as they are. A state is `{"step": float32[], "states": ...}`, with as many arrays for each parameter as the
optimiser needs. The rate is a number, or a scalar of the parameters' dtype, which may differ from call to call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._errors import Unsupported
from ._jit import _flatten, _unflatten

__all__ = ["SGD", "Adam", "AdamW", "Lion", "all_finite", "clip_by_global_norm", "moving_average", "next_loss_scale"]


def _leaves(nested: Any, what: str) -> tuple[Any, list]:
    leaves: list = []
    key = _flatten(nested, leaves)
    if not leaves:
        raise TypeError(f"The {what} have no array in them.")
    return key, leaves


def _alike(key: Any, nested: Any, what: str) -> list:
    """The leaves of what is nested as the parameters are."""
    leaves: list = []
    if _flatten(nested, leaves) != key:
        raise TypeError(f"The {what} are nested in another way than the parameters.")
    return leaves


def _numpy_dtype(array: Any) -> np.dtype:
    name = str(array.dtype)
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise Unsupported("NumPy has no bfloat16, which a state would have: install ml_dtypes.") from None
    return np.dtype(ml_dtypes.bfloat16)


class _Optimizer:
    """An optimiser: what it is made with are numbers that a compiled step has inside."""

    def _state_count(self) -> int:
        raise NotImplementedError

    def _step(self, parameter: Any, gradient: Any, states: Any, rate: Any, step: Any) -> tuple:
        raise NotImplementedError

    def init(self, params: Any) -> dict:
        """The state before the first step: NumPy zeros, as many for each parameter as the optimiser needs."""
        key, leaves = _leaves(params, "parameters")
        zeros = [tuple(np.zeros(p.shape, _numpy_dtype(p)) for _ in range(self._state_count())) for p in leaves]
        return {"step": np.float32(0), "states": _unflatten(key, iter(zeros))}

    def step(self, params: Any, gradients: Any, state: dict, rate: Any) -> tuple[Any, dict]:
        """The parameters and the state after a step; neither is changed."""
        key, leaves = _leaves(params, "parameters")
        slopes = _alike(key, gradients, "gradients")
        if not isinstance(state, dict) or not {"step", "states"} <= state.keys():
            raise TypeError("The state is no dict of 'step' and 'states': init() makes it.")
        states: list = []
        _flatten(state["states"], states)
        each = self._state_count()
        if len(states) != each * len(leaves):
            raise TypeError(
                f"The state has {len(states)} arrays, and {type(self).__name__} has {each} for each of "
                f"{len(leaves)} parameters: init() makes it."
            )
        step = state["step"] + 1
        updated, kept = [], []
        for i, (parameter, slope) in enumerate(zip(leaves, slopes)):
            count = step.astype(parameter.dtype) if step.dtype != parameter.dtype else step
            made, after = self._step(parameter, slope, states[each * i : each * (i + 1)], rate, count)
            updated.append(made)
            kept.append(tuple(after))
        return _unflatten(key, iter(updated)), {"step": step, "states": _unflatten(key, iter(kept))}


class SGD(_Optimizer):
    """p - rate * g; with momentum the state v = momentum * v + g is subtracted in place of g."""

    def __init__(self, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0) -> None:
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay

    def _state_count(self) -> int:
        return 1 if self.momentum != 0 else 0

    def _step(self, parameter: Any, gradient: Any, states: Any, rate: Any, step: Any) -> tuple:
        return _core._sgd(parameter, gradient, states, rate, self.momentum, self.nesterov, self.weight_decay)


class AdamW(_Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    def __init__(
        self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, weight_decay: float = 0.01
    ) -> None:
        self.beta1, self.beta2, self.epsilon, self.weight_decay = beta1, beta2, epsilon, weight_decay

    def _state_count(self) -> int:
        return 2

    def _step(self, parameter: Any, gradient: Any, states: Any, rate: Any, step: Any) -> tuple:
        return _core._adamw(
            parameter, gradient, states, rate, step, self.beta1, self.beta2, self.epsilon, self.weight_decay
        )


class Adam(AdamW):
    """AdamW without weight decay."""

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        super().__init__(beta1, beta2, epsilon, 0.0)


class Lion(_Optimizer):
    """The sign of a mean of gradients (Chen et al., 2023)."""

    def __init__(self, beta1: float = 0.9, beta2: float = 0.99, weight_decay: float = 0.0) -> None:
        self.beta1, self.beta2, self.weight_decay = beta1, beta2, weight_decay

    def _state_count(self) -> int:
        return 1

    def _step(self, parameter: Any, gradient: Any, states: Any, rate: Any, step: Any) -> tuple:
        return _core._lion(parameter, gradient, states, rate, self.beta1, self.beta2, self.weight_decay)


def clip_by_global_norm(gradients: Any, most: float) -> tuple[Any, Any]:
    """All gradients scaled by min(1, most / norm), and the norm: the square root of the sum of all squares."""
    key, leaves = _leaves(gradients, "gradients")
    clipped, norm = _core._clip_by_global_norm(leaves, most)
    return _unflatten(key, iter(clipped)), norm


def all_finite(gradients: Any) -> Any:
    """bool[]: whether all elements of all gradients are finite."""
    return _core._all_finite(_leaves(gradients, "gradients")[1])


def moving_average(mean: Any, value: Any, decay: float) -> Any:
    """decay * mean + (1 - decay) * value, for each array."""
    key, leaves = _leaves(mean, "means")
    values = _alike(key, value, "values")
    return _unflatten(key, iter([_core._moving_average(m, v, decay) for m, v in zip(leaves, values)]))


def next_loss_scale(
    scale: Any,
    good: Any,
    finite: Any,
    *,
    growth: float = 2.0,
    backoff: float = 0.5,
    interval: int = 2000,
    largest: float = 16777216.0,
) -> tuple[Any, Any]:
    """The scale of the loss (float32[]) and the count of finite steps in a row (int32[]) after a step whose gradients
    are all `finite` or not: halved by a step that is not, doubled after `interval` that are."""
    return _core._next_loss_scale(scale, good, finite, growth, backoff, interval, largest)

"""Gradients of tensors, and of functions of them."""

from __future__ import annotations

import functools
from typing import Any, Callable

from . import _core
from ._jit import _flatten, _unflatten


def gradients(outputs: Any, wrt: Any, cotangents: Any = None) -> Any:
    """The gradient of the outputs, each times its cotangent, with respect to each of `wrt`.

    Outputs are one float tensor or a list of them; without cotangents each counts with ones, so that a scalar has its
    gradient. `wrt` is a tensor, or lists, tuples and dicts of them, and what is returned is nested as it is. Gradients
    are tensors like any others, and have gradients too; docs/gradients.md says what they are of each op.

    >>> @vkfuse.jit
    ... def step(w, x, labels):
    ...     loss = vkfuse.cross_entropy(x @ w, labels).mean()
    ...     return loss, w - 0.1 * vkfuse.gradients(loss, w)
    """
    leaves: list = []
    key = _flatten(wrt, leaves)
    for one in leaves:
        if not isinstance(one, _core.Tensor):
            raise TypeError("gradients() are with respect to tensors: those of a function of jit(), a Graph, a Stream.")
    outputs = [outputs] if isinstance(outputs, _core.Tensor) else outputs
    if cotangents is None:
        cotangents = []
    elif not isinstance(cotangents, (list, tuple)):
        cotangents = [cotangents]
    return _unflatten(key, iter(_core._gradients(outputs, leaves, cotangents)))


def value_and_grad(function: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """A function that returns what `function` does, and its gradient with respect to the arguments `argnums`.

    `function` returns a scalar tensor, or, with `has_aux`, a pair of one and of anything else. Arguments may be nested
    in lists, tuples and dicts, and so is the gradient. The function is for tensors: call it inside one of jit().

    >>> @vkfuse.jit
    ... def step(params, batch):
    ...     loss, slopes = vkfuse.value_and_grad(loss_of)(params, batch)
    ...     return loss, {name: p - 0.1 * slopes[name] for name, p in params.items()}
    """
    if not callable(function):
        raise TypeError("value_and_grad() takes a function.")

    @functools.wraps(function)
    def both(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        value = made[0] if has_aux else made
        if not isinstance(value, _core.Tensor):
            raise TypeError("A function that is differentiated returns a tensor, and its arguments are tensors.")
        if value.shape != ():
            raise TypeError(f"A function that is differentiated returns a scalar, and this one is {value.shape}.")
        wrt = args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)
        return made, gradients(value, wrt)

    return both


def grad(function: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """The gradient alone of value_and_grad(); with `has_aux` a pair of it and of the rest."""
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def slope(*args: Any, **kwargs: Any) -> Any:
        made, taken = both(*args, **kwargs)
        return (taken, made[1]) if has_aux else taken

    return slope

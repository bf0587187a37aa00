"""Values that a forward graph keeps for its backward graph. They stay on the device: the tensor that PyTorch holds in
the meantime has memory that nothing is written to until eager reads it as a part of a backward graph."""

from __future__ import annotations

import threading

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .. import _core
from ._layout import Layout, placed

_waiting: dict[int, tuple] = {}
_lock = threading.Lock()


def is_possible() -> bool:
    """Not where hooks look at saved tensors, and not where the backward graph becomes a part of another graph."""
    autograd = torch._C._autograd
    if autograd._saved_tensors_hooks_is_enabled() and autograd._top_saved_tensors_default_hooks(True):
        return False
    return not torch._dynamo.config.compiled_autograd


def sweep() -> None:
    """Frees what was kept for tensors that are gone."""
    with _lock:
        for key in [key for key, one in _waiting.items() if one[0].expired()]:
            del _waiting[key]


def mark(tensor: torch.Tensor, layout: Layout, array: _core.Array) -> None:
    """The elements of this tensor are on the device alone."""
    with _lock:
        storage = tensor.untyped_storage()
        _waiting[storage._cdata] = (StorageWeakRef(storage), layout, array)


def array_of(tensor: torch.Tensor, layout: Layout) -> _core.Array | None:
    """The elements on the device, where they are there alone, in this layout. In another one, they are brought to the
    host."""
    with _lock:
        found = _waiting.get(tensor.untyped_storage()._cdata)
    if found is None or found[0].expired():
        return None
    if (found[1].sizes, found[1].order) == (layout.sizes, layout.order):
        return found[2]
    fill(tensor)
    return None


def fill(tensor: torch.Tensor) -> None:
    """Brings the elements to the host, where they are on the device alone."""
    with _lock:
        found = _waiting.get(tensor.untyped_storage()._cdata)
        if found is None or found[0].expired():
            return
        del _waiting[tensor.untyped_storage()._cdata]
    stored = placed(torch.from_dlpack(found[2]), found[1]).untyped_storage()
    tensor.untyped_storage().copy_(stored)

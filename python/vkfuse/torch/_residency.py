"""What is on the device already: parameters, buffers, and values that one graph keeps for another."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_post_hook

from .. import _core


_WINDOW, _WINDOWS = 64, 4


def _some_bytes(tensor: torch.Tensor) -> bytes:
    """A few windows of a tensor's memory, spread evenly."""
    size = tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.element_size()
    if size <= _WINDOW * _WINDOWS:
        return ctypes.string_at(tensor.data_ptr(), size) if size > 0 else b""
    last = size - _WINDOW
    return b"".join(
        ctypes.string_at(tensor.data_ptr() + last * i // (_WINDOWS - 1), _WINDOW) for i in range(_WINDOWS)
    )


class Resident:
    """Copies on one device of tensors of the host, by their storage. A copy is good while the tensor has the version
    that it had: what PyTorch writes in place counts the version up. Some of the bytes are compared as well, as not all
    that writes counts."""

    def __init__(self, device: _core.Device) -> None:
        self._device, self._lock = device, threading.Lock()
        self._entries: dict[Any, tuple] = {}
        self._fleeting: dict[Any, None] = {}  # keys of what lives for one step, which is looked through often
        self._sweep_at = 256
        self.uploads = 0

    @staticmethod
    def _key(tensor: torch.Tensor, order: tuple) -> tuple:
        return (
            tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype,
            tensor.is_neg(), order,
        )  # fmt: skip

    def find(self, tensor: torch.Tensor, order: tuple, use: str = "input") -> _core.Array | None:
        """The copy of a tensor, its axes in this order; None where there is none, or an old one. What was uploaded is
        good for a parameter ("kept") that is that tensor, as another one of the same memory may count versions by
        itself; for a backward graph, whose tensors autograd looks after ("saved"); and not for another input, as NumPy
        or a file may share its memory."""
        if tensor.is_inference():  # has no version
            return None
        with self._lock:
            entry = self._entries.get(self._key(tensor, order))
            if entry is None or entry[0].expired() or entry[1:3] != (tensor._version, _some_bytes(tensor)):
                return None
            uploaded = entry[4]
            if uploaded is not None and use != "saved" and (use != "kept" or uploaded() is not tensor):
                return None
            return entry[3]

    def keep(self, tensor: torch.Tensor, order: tuple, array: _core.Array, is_fleeting: bool = False,
             uploaded: Any = None) -> None:  # fmt: skip
        """Remembers that this array has the elements of the tensor as they are now. `uploaded` refers to the tensor
        whose elements were copied there; without it, the device computed them."""
        if tensor.is_inference():
            return
        reference, key = StorageWeakRef(tensor.untyped_storage()), self._key(tensor, order)
        with self._lock:
            self._entries[key] = (reference, tensor._version, _some_bytes(tensor), array, uploaded)
            if is_fleeting:
                self._fleeting[key] = None
            if len(self._entries) >= self._sweep_at:
                self._entries = {key: one for key, one in self._entries.items() if not one[0].expired()}
                self._sweep_at = max(256, 2 * len(self._entries))

    def sweep(self) -> None:
        """Frees copies of what lived for one step and is gone."""
        with self._lock:
            kept: dict[Any, None] = {}
            for key in self._fleeting:
                entry = self._entries.get(key)
                if entry is not None and entry[0].expired():
                    del self._entries[key]
                elif entry is not None:
                    kept[key] = None
            self._fleeting = kept

    def upload(self, tensor: torch.Tensor, order: tuple, use: str) -> _core.Array:
        """The elements on the device: the copy that is there, or a new one, which is kept. `use` as for find()."""
        found = self.find(tensor, order, use)
        if found is not None:
            return found
        plain = tensor.detach()
        stored = plain.permute(order) if plain.ndim else plain
        array = self._device.array(stored.resolve_neg().contiguous())
        self.uploads += 1
        self.keep(plain, order, array, use != "kept", weakref.ref(tensor))
        return array

    def forget(self, tensors: Any = None) -> None:
        """Frees the copies of these tensors, or all."""
        storages = None if tensors is None else {one.untyped_storage()._cdata for one in tensors}
        with self._lock:
            self._entries = {
                key: one for key, one in self._entries.items() if storages is not None and key[0] not in storages
            }


_residents: dict[Any, Resident] = {}
_shared: list = []  # memories of tensors that are not on the host (SharedMemory)
_lock = threading.Lock()


def resident(device: _core.Device) -> Resident:
    """The copies on a device."""
    with _lock:
        if device not in _residents:
            _residents[device] = Resident(device)
        return _residents[device]


def remember(memory: Any) -> None:
    """A memory whose runs synchronize() waits for."""
    _shared.append(memory)


def synchronize() -> None:
    """Waits until what was called is done on all devices. Calls on tensors of a GPU do not wait: a position that was
    out of range there is an IndexError here, or else of a later call."""
    for one in list(_shared):
        one.wait()
    for one in list(_shared):
        one.begin()


def forget(tensors: Any = None) -> None:
    """Frees the copies of these tensors on devices, or all. It is needed after elements have been changed where PyTorch
    does not count it: through `.data`, a NumPy array that shares them, or another library."""
    tensors = None if tensors is None else list(tensors)
    for one in list(_residents.values()):
        one.forget(tensors)


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Fused optimisers write to parameters and do not count their versions up."""
    fused = [one for group in optimizer.param_groups if group.get("fused") for one in group["params"]]
    if fused:
        forget(fused)


register_optimizer_step_post_hook(_after_step)

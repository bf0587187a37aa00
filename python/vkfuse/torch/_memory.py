"""Where the tensors of a graph are, and how programs come by them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from .. import _core
from . import _cuda, _deferred
from ._layout import Layout, placed
from ._residency import resident
from ._shared import SharedMemory


class HostMemory:
    """Tensors on the host, which are copied to the device and back (SharedMemory has the same functions)."""

    can_defer = True

    def __init__(self, device: _core.Device) -> None:
        self._device, self._resident = device, resident(device)

    def begin(self) -> None:
        """Before a call."""
        self._resident.sweep()
        _deferred.sweep()

    def tensor(self, value: _core.Array, dtype: torch.dtype, layout: Layout) -> torch.Tensor:
        """A value as PyTorch has it, with the strides that it has there."""
        return placed(torch.from_dlpack(value), layout)

    def value(self, tensor: torch.Tensor, layout: Layout, use: str) -> _core.Array:
        """The elements of a tensor on the device; `use` as for Resident.find()."""
        waiting = _deferred.array_of(tensor, layout)
        return waiting if waiting is not None else self._resident.upload(tensor, layout.order, use)

    def keep(self, tensor: torch.Tensor, order: tuple, value: _core.Array, is_fleeting: bool) -> None:
        """Remembers that a tensor has these elements now."""
        self._resident.keep(tensor.detach(), order, value, is_fleeting)

    def run(self, program: Any, values: dict[str, _core.Array]) -> dict[str, _core.Array]:
        """A program's outputs; the device may still compute them."""
        if program.is_random:
            values["seed"] = self._device.array(np.uint32(torch.randint(0, 2**32, (), device="cpu").item()))
        made = program.compiled.submit(values).outputs
        if program.sentences:
            for is_right, sentence in zip(made.pop("checks").numpy(), program.sentences):
                if not is_right:
                    raise IndexError(sentence)
        return made


@functools.lru_cache(maxsize=None)
def memory_for(home: torch.device, device: _core.Device) -> tuple[Any, str | None]:
    """What brings tensors that are there to the device, or None and why nothing does. One for each pair."""
    if home.type == "cpu":
        return HostMemory(device), None
    if home.type != "cuda":
        return None, f"The tensors are on {home}, and vkfuse takes those of the host and of CUDA."
    reason = _cuda.why_not(home, device)
    return (None, reason) if reason else (SharedMemory(device, _cuda.Cuda(home, device)), None)

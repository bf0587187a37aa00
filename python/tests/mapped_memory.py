"""What CUDA does for vkfuse.torch, on a CPU driver: memory of the device is mapped into this process by its file
descriptor, and PyTorch's tensors of the host lie in it. So the way of tensors on a GPU is tested without one."""

import mmap
import os
import threading

import numpy as np
import torch

import vkfuse
from vkfuse.torch import _memory
from vkfuse.torch._shared import SharedMemory


class _Block:
    def __init__(self, whole):
        self.whole = whole
        descriptor, _, _ = whole.export_memory()
        mark = np.random.default_rng(len(whole)).integers(0, 256, 256, dtype=np.uint8)
        whole.view("uint8", mark.shape).write(mark)
        self._mapped = np.frombuffer(mmap.mmap(descriptor, os.fstat(descriptor).st_size), np.uint8)
        os.close(descriptor)
        at = self._mapped.tobytes().find(mark.tobytes())  # drivers put something of theirs before the buffer
        assert at >= 0 and len(self._mapped) - at >= len(whole)
        self.pointer = self._mapped.ctypes.data + at

    def close(self):
        self._mapped = None


class _Channel:
    """The host is the other one. What it does is done when it is called, but the device hears of it after the run was
    submitted: one that does not wait would end before."""

    def __init__(self, device):
        self._before, self._after, self._value = vkfuse.Timeline(device), vkfuse.Timeline(device), 0

    def begin(self):
        self._value += 1
        return [(self._before, self._value)], [(self._after, self._value)]

    def end(self):
        assert not self._after.wait(self._value, 0.005), "The run does not wait."
        self._before.signal(self._value)
        assert self._after.wait(self._value, 120)


class _Event:
    def query(self):
        return True


class Mapped:
    """As vkfuse.torch._cuda.Cuda."""

    home = torch.device("cpu")

    def __init__(self, device):
        self._device, self._channels = device, {}

    def block(self, whole):
        return _Block(whole)

    def bytes_at(self, pointer, size, holder):
        holder.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3}
        return torch.from_numpy(np.asarray(holder))

    def stream(self):
        return threading.get_ident()

    def channel(self):
        thread = threading.get_ident()
        if thread not in self._channels:
            self._channels[thread] = _Channel(self._device)
        return self._channels[thread]

    def wait(self):
        pass

    def fetch(self, tensor):
        return tensor.clone(), _Event()


def install(monkeypatch):
    """Tensors of the host are in memory that is shared, from now on. Returns what has the memories, by device."""
    made = {}

    def memory_for(home, device):
        assert home.type == "cpu"
        if device not in made:
            made[device] = SharedMemory(device, Mapped(device))
        return made[device], None

    from vkfuse.torch import _executable

    monkeypatch.setattr(_executable, "memory_for", memory_for)
    monkeypatch.setattr(_memory, "memory_for", memory_for)
    return made

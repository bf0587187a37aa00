"""Memory and timelines of Vulkan in CUDA: what of its driver's interface is called, by ctypes."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

from .. import _core
from .._errors import DeviceError, OutOfMemory

# cuda.h: CUexternalMemoryHandleType and CUexternalSemaphoreHandleType, CUDA_EXTERNAL_MEMORY_DEDICATED.
_OPAQUE_FD, _TIMELINE_FD, _DEDICATED = 1, 9, 1
_NO_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


class _Handle(ctypes.Union):
    _fields_ = [("fd", ctypes.c_int), ("pointers", ctypes.c_void_p * 2)]


class _MemoryHandle(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_HANDLE_DESC."""

    _fields_ = [("type", ctypes.c_int), ("handle", _Handle), ("size", ctypes.c_uint64), ("flags", ctypes.c_uint),
                ("reserved", ctypes.c_uint * 16)]  # fmt: skip


class _BufferRange(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_BUFFER_DESC."""

    _fields_ = [("offset", ctypes.c_uint64), ("size", ctypes.c_uint64), ("flags", ctypes.c_uint),
                ("reserved", ctypes.c_uint * 16)]  # fmt: skip


class _SemaphoreHandle(ctypes.Structure):
    """CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC."""

    _fields_ = [("type", ctypes.c_int), ("handle", _Handle), ("flags", ctypes.c_uint),
                ("reserved", ctypes.c_uint * 16)]  # fmt: skip


class _Point(ctypes.Structure):
    """CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, and ..._WAIT_PARAMS, which is as large and begins alike."""

    _fields_ = [("value", ctypes.c_uint64), ("others", ctypes.c_uint64 * 8), ("flags", ctypes.c_uint),
                ("reserved", ctypes.c_uint * 16)]  # fmt: skip


class _Driver:
    """CUDA's driver, in the context that PyTorch uses of one device, whatever the caller's thread has."""

    def __init__(self, index: int) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        device, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._check("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
        self._check("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)

    def _check(self, name: str, *args: Any) -> None:
        status = getattr(self._library, name)(*args)
        if status != 0:
            said = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(said))
            kind = OutOfMemory if status == _NO_MEMORY else DeviceError
            raise kind(f"{name} failed: {(said.value or b'unknown error').decode()} ({status}).")

    def call(self, name: str, *args: Any) -> None:
        self._check("cuCtxPushCurrent_v2", self._context)
        try:
            self._check(name, *args)
        finally:
            self._check("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


class Block:
    """Memory that vkfuse allocated, mapped for CUDA as long as this lives."""

    def __init__(self, driver: _Driver, whole: _core.Array) -> None:
        self.whole, self._driver = whole, driver
        fd, size, dedicated = whole.export_memory()
        given = _MemoryHandle(type=_OPAQUE_FD, size=size, flags=_DEDICATED if dedicated else 0)
        given.handle.fd = fd
        self._memory = ctypes.c_void_p()
        try:
            driver.call("cuImportExternalMemory", ctypes.byref(self._memory), ctypes.byref(given))
        except Exception:
            os.close(fd)  # CUDA closes what it has taken
            raise
        pointer, of = ctypes.c_uint64(), _BufferRange(size=size)
        try:
            driver.call("cuExternalMemoryGetMappedBuffer", ctypes.byref(pointer), self._memory, ctypes.byref(of))
        except Exception:
            driver.call("cuDestroyExternalMemory", self._memory)
            raise
        self.pointer: int = pointer.value

    def close(self) -> None:
        """Takes the mapping away. What CUDA was given to do with it is done."""
        self._driver.call("cuMemFree_v2", ctypes.c_uint64(self.pointer))
        self._driver.call("cuDestroyExternalMemory", self._memory)


class _Imported:
    """A timeline, for CUDA too."""

    def __init__(self, driver: _Driver, device: _core.Device) -> None:
        self.timeline, self.value = _core.Timeline(device), 0
        given = _SemaphoreHandle(type=_TIMELINE_FD)
        given.handle.fd = fd = self.timeline.export()
        self.semaphore = ctypes.c_void_p()
        try:
            driver.call("cuImportExternalSemaphore", ctypes.byref(self.semaphore), ctypes.byref(given))
        except Exception:
            os.close(fd)
            raise

    def next(self) -> tuple:
        self.value += 1
        return self.timeline, self.value


class _Channel:
    """Between one stream of CUDA and the device's queue, in both directions."""

    def __init__(self, driver: _Driver, device: _core.Device, stream: int) -> None:
        self._driver, self._stream = driver, ctypes.c_void_p(stream)
        self._before, self._after = _Imported(driver, device), _Imported(driver, device)

    def _enqueue(self, name: str, of: _Imported) -> None:
        point, one = _Point(value=of.value), (ctypes.c_void_p * 1)(of.semaphore)
        self._driver.call(name, one, ctypes.byref(point), ctypes.c_uint(1), self._stream)

    def begin(self) -> tuple[list, list]:
        """What a run waits for: all that the stream was given; and what it is to signal."""
        before = self._before.next()
        self._enqueue("cuSignalExternalSemaphoresAsync", self._before)
        return [before], [self._after.next()]

    def end(self) -> None:
        """What the stream is given from now on waits for the run."""
        self._enqueue("cuWaitExternalSemaphoresAsync", self._after)


class Cuda:
    """What SharedMemory asks of CUDA, for one of its devices."""

    def __init__(self, home: torch.device, device: _core.Device) -> None:
        self.home, self._device, self._driver = home, device, _Driver(home.index)
        self._channels: dict[int, _Channel] = {}

    def block(self, whole: _core.Array) -> Block:
        """Memory of Device.allocate_shared(), mapped."""
        return Block(self._driver, whole)

    def stream(self) -> int:
        """The one that PyTorch uses now."""
        return torch.cuda.current_stream(self.home).cuda_stream

    def bytes_at(self, pointer: int, size: int, holder: Any) -> torch.Tensor:
        """Mapped bytes as a tensor of uint8; its storage keeps the holder."""
        holder.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3, "strides": None
        }  # fmt: skip
        return torch.as_tensor(holder, device=self.home)

    def channel(self) -> _Channel:
        """Of the stream that PyTorch uses now."""
        stream = self.stream()
        found = self._channels.get(stream)
        if found is None:
            found = self._channels[stream] = _Channel(self._driver, self._device, stream)
        return found

    def wait(self) -> None:
        """Blocks until the device has done all that it was given."""
        torch.cuda.synchronize(self.home)

    def fetch(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """A copy on the host that is made later, and an event: once event.query() is true, it is made."""
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
        copy.copy_(tensor, non_blocking=True)
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self.home))
        return copy, event


def uuid_of(home: torch.device) -> str:
    """Of a device of CUDA, as Device.describe() has it."""
    return str(torch.cuda.get_device_properties(home).uuid).replace("-", "")


def why_not(home: torch.device, device: _core.Device) -> str | None:
    """Why tensors of a device of CUDA cannot be shared with this one; None where they can."""
    if torch.version.hip is not None:
        return "PyTorch is one for ROCm, whose memory is not shared with Vulkan here."
    described = device.describe()
    if uuid_of(home) != described["uuid"]:
        return f"The tensors are on {home}, which is another device than vkfuse's, {described['name']}."
    if not device.shares_memory or not device.shares_timelines:
        return f"The driver of {described['name']} shares no memory or no timelines with CUDA."
    return None

"""Tensors on a GPU that PyTorch uses, too: programs read and write memory that both have, and neither waits on the host
for the other."""

from __future__ import annotations

import collections
import functools
import math
import threading
import weakref
from typing import Any, Callable

import numpy as np
import torch
from torch._prims_common import make_contiguous_strides_for

from .. import _core
from .._errors import OutOfMemory
from ._dtypes import name_of
from ._layout import Layout, spread
from ._residency import remember

_PIECE = 256  # what parts of a buffer begin at
_SLAB = 2 << 20  # the least that is allocated at once; pieces of up to a quarter share one
_RUNS = 2  # of a program, in flight: each has an arena


def _users(tensor: torch.Tensor) -> int:
    """How many tensors have the storage of this one, and this question."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return 0
    storage = tensor.untyped_storage()
    return torch._C._storage_Use_Count(storage._cdata)


_ALONE = _users(torch.empty(1))


def _rounded(size: int) -> int:
    """What is allocated for so many bytes: an eighth more at most, so that pieces fit again."""
    step = max(_PIECE, 1 << max((size - 1).bit_length() - 3, 0)) if size > 1 else _PIECE
    return max(_PIECE, -(-size // step) * step)


class _Piece:
    """Part of a block, or all of one."""

    def __init__(self, block: Any, whole: _core.Array, pointer: int, size: int, is_alone: bool) -> None:
        self.block, self.pointer, self.size, self.is_alone = block, pointer, size, is_alone
        self._whole, self._views = whole, {}
        self.stream = 0  #: that it was taken on

    def view(self, dtype: str, sizes: tuple) -> _core.Array:
        """One array for each dtype and sizes: a program that is bound to it again submits what it recorded."""
        found = self._views.get((dtype, sizes))
        if found is None:
            found = self._views[dtype, sizes] = self._whole.view(dtype, sizes)
        return found


def _form(tensor: torch.Tensor) -> tuple:
    return tensor.dtype, tensor.shape, tensor.stride()


class Memory:
    """A piece in use: it goes back to its pool when nobody holds this."""

    def __init__(self, pool: "_Pool", piece: _Piece) -> None:
        self._pool, self.piece = pool, piece

    def __del__(self) -> None:
        self._pool.freed.append(self.piece)  # any thread, at any time: no lock is taken


class _Pool:
    """Memory that both have. To map it takes longer than most kernels run, so it is kept: a quarter more than was ever
    in use at a time, and 256 MiB. What is given back may still be read by what its stream was given before: what takes
    it next is of the same stream, and comes after."""

    def __init__(self, device: _core.Device, api: Any, wait: Callable, lock: Any) -> None:
        self._device, self._api, self._wait, self._lock = device, api, wait, lock
        self.freed: collections.deque = collections.deque()
        self._free: dict[tuple, list[_Piece]] = collections.defaultdict(list)  # by the stream and the size
        self._in_use: dict[int, weakref.ref] = {}  # by the address
        self.bytes, self._taken, self._most_taken = 0, 0, 0  # of blocks; of pieces in use, now and at most

    def _collect(self) -> None:
        while self.freed:
            piece = self.freed.popleft()
            self._in_use.pop(piece.pointer, None)
            self._free[piece.stream, piece.size].append(piece)
            self._taken -= piece.size

    def trim(self) -> bool:
        """Frees the blocks of which nothing is in use; false if there were none."""
        with self._lock:
            self._collect()
            gone = [piece for pieces in self._free.values() for piece in pieces if piece.is_alone]
            if not gone:
                return False
            self._wait()
            for piece in gone:
                self._free[piece.stream, piece.size].remove(piece)
                self.bytes -= piece.size
                piece.block.close()
            return True

    def _block(self, size: int) -> Any:
        if self.bytes + size > 1.25 * max(self._most_taken, self._taken + size) + (256 << 20):
            self.trim()
        try:
            block = self._api.block(self._device.allocate_shared(size))
        except OutOfMemory:
            if self._api.home.type == "cuda":
                torch.cuda.empty_cache()
            self.trim()
            block = self._api.block(self._device.allocate_shared(size))
        self.bytes += size
        return block

    def take(self, size: int) -> Memory:
        """Memory of at least so many bytes."""
        size, stream = _rounded(size), self._api.stream()
        with self._lock:
            self._collect()
            free = self._free[stream, size]
            if not free:
                free += self._made(size)
            piece = free.pop()
            piece.stream = stream
            self._taken += size
            self._most_taken = max(self._most_taken, self._taken)
            memory = Memory(self, piece)
            self._in_use[piece.pointer] = weakref.ref(memory)
            return memory

    def _made(self, size: int) -> list[_Piece]:
        if size > _SLAB // 4:
            block = self._block(size)
            return [_Piece(block, block.whole, block.pointer, size, True)]
        block, pieces = self._block(_SLAB), []
        for offset in range(0, _SLAB - size + 1, size):
            whole = block.whole.view("uint8", (size,), offset)
            pieces.append(_Piece(block, whole, block.pointer + offset, size, False))
        return pieces

    def at(self, pointer: int) -> Memory | None:
        """The memory that begins at an address, if it is of this pool and in use."""
        found = self._in_use.get(pointer)
        return None if found is None else found()


class Value:
    """Elements of a tensor, dense in some order of its axes, in memory that both have."""

    def __init__(self, memory: Memory, dtype: torch.dtype, stored: tuple) -> None:
        self.memory, self.array = memory, memory.piece.view(name_of(dtype), stored)


class SharedMemory:
    """What a run asks about tensors of one device of PyTorch (`_memory.HostMemory` has the same functions). `api` is
    what maps memory and orders what both do: Cuda."""

    can_defer = False

    def __init__(self, device: _core.Device, api: Any) -> None:
        self._device, self._api, self.home = device, api, api.home
        self._lock = threading.RLock()  # one for both: each calls the other
        self.pool = _Pool(device, api, self.wait, self._lock)
        self._places: dict[tuple, tuple] = {}  # parameters that are in memory that both have
        self._programs: weakref.WeakSet = weakref.WeakSet()
        self._checks: collections.deque = collections.deque()
        self.uploads = 0  #: tensors of PyTorch's memory that were copied
        remember(self)

    # ---- values ----

    def tensor(self, value: Value, dtype: torch.dtype, layout: Layout) -> torch.Tensor:
        """As PyTorch has it: the same memory, where the layout is dense."""
        memory, size = value.memory, max(1, math.prod(layout.stored) * dtype.itemsize)
        storage = self._api.bytes_at(memory.piece.pointer, size, _Holder(memory)).untyped_storage()
        made = torch.empty(0, dtype=dtype, device=self.home)
        if layout.is_dense:
            return made.set_(storage, 0, layout.sizes, layout.strides)
        made.set_(storage, 0, layout.stored)
        return spread(made, layout)

    def value(self, tensor: torch.Tensor, layout: Layout, use: str) -> Value:
        """Elements for a program: where they are, if that is memory that both have, else a copy. A parameter ("kept")
        that has its storage to itself moves there; of another one a copy would not see what is written to it by way of
        the others, so that it is made in each call."""
        if use != "kept":
            return self._found(tensor, layout.order) or self._copied(self._stored(tensor, layout.order))
        with self._lock:
            known = self._places.get((id(tensor), layout.order))
            if known is not None and known[0]() is tensor and known[1:3] == (tensor.data_ptr(), _form(tensor)):
                return known[3]
            is_alone = _users(tensor) == _ALONE  # before there are aliases
            value = self._found(tensor, layout.order)
            if value is None and is_alone and tensor.device == self.home and not tensor.is_inference():
                value = self._moved(tensor, layout.order)
            if value is None:
                return self._copied(self._stored(tensor, layout.order))
            key = (id(tensor), layout.order)
            gone = functools.partial(self._places.pop, key)
            reference = weakref.ref(tensor, lambda _: gone(None))
            self._places[key] = (reference, value.memory.piece.pointer, _form(tensor), value)
            return value

    @staticmethod
    def _stored(tensor: torch.Tensor, order: tuple) -> torch.Tensor:
        plain = tensor.detach()
        return plain.permute(order) if plain.ndim else plain

    def _found(self, tensor: torch.Tensor, order: tuple) -> Value | None:
        """The elements where they are, if that is memory that both have and they lie there in this order."""
        if tensor.device != self.home or tensor.is_neg() or tensor.storage_offset() != 0:
            return None
        memory, stored = self.pool.at(tensor.untyped_storage().data_ptr()), self._stored(tensor, order)
        return Value(memory, tensor.dtype, tuple(stored.shape)) if memory and stored.is_contiguous() else None

    def _moved(self, tensor: torch.Tensor, order: tuple) -> Value | None:
        """Elements that are in memory that both have from now on, where whatever is written to the tensor is seen. None
        if they are not dense, or not all of their storage."""
        stored = self._stored(tensor, order)
        whole = stored.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes > 0
        if not whole or tensor.is_neg():
            return None
        with torch.inference_mode(False), torch.no_grad():  # it may be trained later
            value = self._copied(stored)
            sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
            tensor.data = self.tensor(value, tensor.dtype, Layout(sizes, strides, tuple(range(len(sizes))), (), True))
        return value

    def _copied(self, stored: torch.Tensor) -> Value:
        self.uploads += 1
        value = self.room(stored.dtype, tuple(stored.shape))
        if stored.numel() > 0:
            sizes = tuple(stored.shape)
            layout = Layout(sizes, make_contiguous_strides_for(sizes), tuple(range(len(sizes))), (), True)
            self.tensor(value, stored.dtype, layout).copy_(stored)
        return value

    def room(self, dtype: torch.dtype, stored: tuple) -> Value:
        """For so many elements; nothing in particular is in it."""
        return Value(self.pool.take(math.prod(stored) * dtype.itemsize), dtype, stored)

    def keep(self, tensor: torch.Tensor, order: tuple, value: Value, is_fleeting: bool) -> None:
        """A tensor has these elements now: nothing has to be remembered, as it is read where it is."""

    # ---- runs ----

    def begin(self) -> None:
        """Before a call: what earlier ones found out of range is an error of this one."""
        with self._lock:
            while self._checks and self._checks[0][1].query():
                right, _, sentences = self._checks.popleft()
                for is_right, sentence in zip(right.tolist(), sentences):
                    if not is_right:
                        raise IndexError(sentence + " It was found in an earlier call, which gave something else.")

    def wait(self) -> None:
        """Waits for all runs, which hold nothing then."""
        self._api.wait()
        for program in list(self._programs):
            with self._lock:
                while program.running:
                    program.running.popleft().wait()

    def run(self, program: Any, values: dict[str, Value]) -> dict[str, Value]:
        """A program's outputs; the device may still compute them, and what the stream is given next waits for it."""
        if program.is_random:
            values["seed"] = self._seed()
        made = {name: self.room(dtype, shape) for name, dtype, shape in program.results}
        arrays = {name: value.array for name, value in values.items()}
        results = {name: value.array for name, value in made.items()}
        with self._lock:
            self._programs.add(program)
            running = program.running
            while running and (len(running) >= _RUNS or running[0].done):
                running.popleft().wait()
            channel = self._api.channel()
            wait_for, signal = channel.begin()
            running.append(program.compiled.submit(arrays, results, wait_for=wait_for, signal=signal))
            channel.end()
            if program.sentences:
                self._check_later(made.pop("checks"), program.sentences)
        return made

    def _check_later(self, checks: Value, sentences: tuple) -> None:
        sizes = tuple(checks.array.shape)
        tensor = self.tensor(checks, torch.bool, Layout(sizes, (1,), (0,), (), True))
        self._checks.append((*self._api.fetch(tensor), sentences))

    def _seed(self) -> Value:
        value = self.room(torch.uint32, ())
        number = np.uint32(torch.randint(0, 2**32, (), device="cpu").item()).view(np.int32)
        self.tensor(value, torch.int32, Layout((), (), (), (), True)).fill_(int(number))
        return value


class _Holder:
    """What the storage of a tensor keeps."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory


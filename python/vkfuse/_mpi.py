"""Ranks that are processes of an MPI job, by mpi4py: the package has no MPI inside."""

from __future__ import annotations

import os
import time
from typing import Any

from . import _core
from ._errors import FileError, Unsupported

# Tags of exchanges; MPI promises 32,767. The last one is that of failures.
_TAGS, _FAILURE_TAG = 32_000, 32_001
_LONGEST_SENTENCE = 1024
# A rank that waits looks again after so long: cores may be shared with the other ranks.
_EAGER_LOOKS, _LOOK_AGAIN = 200, 50e-6
# What MPI may still read or write after an error lives as long as the process.
_in_flight: list = []


def open_mpi(communicator: Any = None) -> _core.Transport:
    """The transport of this process among those of an mpi4py.MPI communicator, which is duplicated; None: COMM_WORLD.

    Collective: every process of the communicator calls it. Unsupported where mpi4py is not installed. After a rank has
    failed leave the process by os._exit(): MPI_Finalize() would wait for that rank.
    """
    # UCX, which MPICH is built on, ends a process that reads the memory of another one which has died.
    os.environ.setdefault("UCX_TLS", "^cma")
    try:
        from mpi4py import MPI
    except ImportError as missing:
        raise Unsupported(f"The transport over MPI needs mpi4py, which cannot be imported: {missing}.") from None
    return _MpiTransport(MPI, (MPI.COMM_WORLD if communicator is None else communicator).Dup())


class _MpiTransport(_core.Transport):
    """A rank of a communicator."""

    def __init__(self, mpi: Any, communicator: Any) -> None:
        super().__init__(communicator.Get_rank(), communicator.Get_size())
        self._mpi, self._communicator = mpi, communicator

    def exchange(self, number: int, sends: list, receives: list, timeout: float) -> None:
        """All messages at once, until they have arrived."""
        deadline = time.monotonic() + timeout
        pending: list = []
        try:
            self._raise_failure()  # a job goes on with all of its ranks or with none
            self._post(number % _TAGS, sends, receives, pending)
            self._wait(pending, deadline)
        except BaseException as raised:
            _in_flight.append((pending, sends, receives))
            if isinstance(raised, self._mpi.Exception):
                raise FileError(f"MPI of rank {self.rank} fails: {raised}.") from raised
            raise

    def fail(self, sentence: str) -> None:
        """Tells every other rank, without waiting."""
        text = bytearray(sentence.encode()[:_LONGEST_SENTENCE])
        for other in range(self.size):
            if other == self.rank:
                continue
            try:
                request = self._communicator.Isend([text, self._mpi.BYTE], dest=other, tag=_FAILURE_TAG)
                _in_flight.append((request, text))
                request.Test()  # lets MPI begin
            except self._mpi.Exception:
                continue  # they wait until their timeout

    def _post(self, tag: int, sends: list, receives: list, pending: list) -> None:
        """Receives first: what arrives then need not be stored on its way."""
        byte = self._mpi.BYTE
        for other, data in receives:
            request = self._communicator.Irecv([data, byte], source=other, tag=tag)
            pending.append((request, other, data.size))
        for other, data in sends:
            pending.append((self._communicator.Isend([data, byte], dest=other, tag=tag), other, None))

    def _wait(self, pending: list, deadline: float) -> None:
        looks = 0
        while pending:
            # A process that did not run for a while looks once more: what it waits for may have come.
            is_late = time.monotonic() >= deadline
            left = [one for one in pending if not self._is_done(*one)]
            looks = looks + 1 if len(left) == len(pending) else 0
            pending[:] = left
            if looks == 0:
                continue
            self._raise_failure()
            if is_late:
                raise FileError(self._silence(pending))
            time.sleep(0 if looks < _EAGER_LOOKS else _LOOK_AGAIN)

    def _is_done(self, request: Any, other: int, expected: int | None) -> bool:
        status = self._mpi.Status()
        if not request.Test(status):
            return False
        if expected is not None and status.Get_count(self._mpi.BYTE) != expected:
            raise FileError(
                f"Rank {other} sent {status.Get_count(self._mpi.BYTE)} bytes where rank {self.rank} expects {expected}."
            )
        return True

    def _raise_failure(self) -> None:
        """Where a rank has told that it failed."""
        status = self._mpi.Status()
        if not self._communicator.Iprobe(source=self._mpi.ANY_SOURCE, tag=_FAILURE_TAG, status=status):
            return
        text = bytearray(status.Get_count(self._mpi.BYTE))
        self._communicator.Recv([text, self._mpi.BYTE], source=status.Get_source(), tag=_FAILURE_TAG)
        raise FileError(f"Rank {status.Get_source()} has failed: {text.decode(errors='replace')}")

    def _silence(self, pending: list) -> str:
        silent = sorted({other for _, other, expected in pending if expected is not None})
        deaf = sorted({other for _, other, expected in pending if expected is None})
        if not silent:
            return f"What rank {self.rank} sent to {_named(deaf)} was not taken until the timeout."
        return f"Rank {self.rank} heard nothing from {_named(silent)} until the timeout."


def _named(ranks: list) -> str:
    words = [f"rank {rank}" for rank in ranks]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"

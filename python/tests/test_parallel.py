"""Programs of several ranks: ranks are threads, over the library's transport and over transports of Python's."""

import collections
import os
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

import vkfuse


def on_ranks(transports, work):
    """What `work(transport)` gives for each rank, each in a thread; what it raises is a result, too."""
    results = [None] * len(transports)

    def body(at):
        try:
            results[at] = work(transports[at])
        except BaseException as raised:  # noqa: BLE001
            results[at] = raised

    threads = [threading.Thread(target=body, args=(at,)) for at in range(len(transports))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return results


def all_of(results):
    for one in results:
        if isinstance(one, BaseException):
            raise one
    return results


def mlp(divided=True):
    """y = relu(x w1) w2, and y divided along its rows."""
    shard = vkfuse.shard if divided else lambda x, axis, mesh_axis: x
    g = vkfuse.Graph("mlp")
    x = g.input("x", "float32", [8, 16])
    w1 = shard(g.input("w1", "float32", [16, 32]), 1, 0)
    w2 = shard(g.input("w2", "float32", [32, 16]), 0, 0)
    y = vkfuse.relu(x @ w1) @ w2
    g.output("y", vkfuse.replicate(y))
    g.output("part", shard(y, 0, 0))
    return g


def whole_numbers(rng, *shape):
    return rng.integers(-3, 4, shape).astype(np.float32)  # sums are exact in any order


@pytest.fixture
def arrays(rng):
    return {"x": whole_numbers(rng, 8, 16), "w1": whole_numbers(rng, 16, 32), "w2": whole_numbers(rng, 32, 16)}


def expected(arrays):
    return np.maximum(arrays["x"] @ arrays["w1"], 0) @ arrays["w2"]


def check(results, arrays):
    want, ranks = expected(arrays), len(results)
    assert np.abs(want).max() > 1
    for rank, result in enumerate(all_of(results)):
        assert list(result) == ["y", "part"]
        np.testing.assert_array_equal(result["y"], want)
        rows = len(want) // ranks
        np.testing.assert_array_equal(result["part"], want[rank * rows : (rank + 1) * rows])


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_divided_program_is_that_of_one_rank(arrays, ranks):
    def work(transport):
        program = mlp().compile_parallel(transport, mesh=[ranks])
        assert program.collective_count == (ranks > 1) * 1 and program.kernel_count >= 1
        assert program.input_names == ["x", "w1", "w2"] and program.output_names == ["y", "part"]
        assert [port.shape for port in program.inputs] == [(8, 16), (16, 32), (32, 16)]
        assert program.transport is transport and f"rank {transport.rank}" in repr(program)
        assert f"rank {transport.rank} of {ranks}" in program.explain()
        assert ("all_reduce_sum" in program.explain()) == (ranks > 1)
        assert program.device == vkfuse.default_device()
        return program(arrays["x"], w2=arrays["w2"], w1=arrays["w1"])

    check(on_ranks(vkfuse.thread_transports(ranks), work), arrays)
    on_one = mlp(False).compile()(**arrays)["y"]
    np.testing.assert_array_equal(on_one, expected(arrays))


def pipeline(x, weights):
    """A layer on each stage of axis 0 of the mesh."""
    for stage, w in enumerate(weights):
        x = vkfuse.relu(vkfuse.at_stage(x, stage, 0) @ w)
    return x


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_stages_of_a_pipeline_are_one_program(rng, micro_batches):
    x, weights = whole_numbers(rng, 8, 16), [whole_numbers(rng, 16, 16) for _ in range(3)]
    want = x
    for w in weights:
        want = np.maximum(want @ w, 0)
    assert np.abs(want).max() > 1

    def work(transport):
        g = vkfuse.Graph("pipeline")
        rows = vkfuse.micro_batch(g.input("x", "float32", [8, 16]), 0)
        y = pipeline(rows, [g.input(f"w{i}", "float32", [16, 16]) for i in range(3)])
        g.output("y", y)
        g.output("part", vkfuse.at_stage(y, 2, 0))
        program = g.compile_parallel(transport, mesh=[3], micro_batches=micro_batches)
        rank = transport.rank
        assert program.output_names == (["y", "part"] if rank == 2 else ["y"])
        assert f"stage {rank} of 3 along axis 0 of the mesh" in program.explain()
        program.upload(**{f"w{rank}": weights[rank]})  # its own alone
        return program(**({"x": x} if rank == 0 else {}))

    for rank, result in enumerate(all_of(on_ranks(vkfuse.thread_transports(3), work))):
        np.testing.assert_array_equal(result["y"], want)
        assert ("part" in result) == (rank == 2)
    on_one = vkfuse.jit(lambda x, *weights: pipeline(vkfuse.micro_batch(x, 0), weights))(x, *weights)
    np.testing.assert_array_equal(np.asarray(on_one), want)


def test_stages_that_cannot_be():
    (one,) = vkfuse.thread_transports(1)
    x = vkfuse.input("x", "float32", [6, 4])
    for y, words, options in (
        (vkfuse.at_stage(x, 1, 0), "names stage 1, but axis 0 of the mesh has 1 rank.", {}),
        (vkfuse.at_stage(x, 0, 1), "names axis 1 of a mesh that has 1", {}),
        (vkfuse.micro_batch(x, 0), "into 4 micro-batches, but 6 is not a multiple of 4", {"micro_batches": 4}),
        (x * 2, "1 to 1024 micro-batches, but 0 are asked for", {"micro_batches": 0}),
        (x * 2, f"not worked on in {2**40} micro-batches", {"micro_batches": 2**40}),
    ):
        with pytest.raises(vkfuse.Error, match=words):
            vkfuse.compile_parallel(y, one, mesh=[1], **options)
    with pytest.raises(vkfuse.InvalidArgument, match="stages count from 0"):
        vkfuse.compile_parallel(vkfuse.at_stage(x, -1, 0), one, mesh=[1])


def test_weights_stay_and_results_stay(arrays):
    def work(transport):
        program = vkfuse.compile_parallel(mlp().outputs, transport, vkfuse.default_device(), mesh=(2,), timeout=60)
        with pytest.raises(vkfuse.InvalidArgument, match="0 runs have ended"):
            program.download()
        program.upload(w1=arrays["w1"], w2=arrays["w2"])
        first = program(arrays["x"])
        program.upload(x=-arrays["x"])
        program.execute()
        second = program.download()
        times = program.profile()
        assert len(times) >= 2 and times[0].kernel.startswith("part 0, ") and times[0].bytes > 0
        return first, second

    results = all_of(on_ranks(vkfuse.thread_transports(2), work))
    check([first for first, _ in results], arrays)
    check([second for _, second in results], {**arrays, "x": -arrays["x"]})


def test_collectives_by_hand_and_texts():
    text = (
        'graph "g" {\n  %0 = input "x" : i32[n]\n  %1 = all_reduce_sum ranks=2 stride=1 %0 : i32[n]\n'
        '  output "y" = %1\n}\n'
    )

    def work(transport):
        x = vkfuse.input("x", "int32", ["n"])
        named = vkfuse.compile_parallel({"y": vkfuse.all_reduce(x, 2)}, transport)
        read = vkfuse.compile_parallel_text(text, transport)
        values = np.arange(5, dtype=np.int32) + transport.rank
        return [program(values)["y"] for program in (named, read)]

    for both in all_of(on_ranks(vkfuse.thread_transports(2), work)):
        for y in both:
            np.testing.assert_array_equal(y, 2 * np.arange(5) + 1)


# ---- transports of Python's ----


class Post:
    """What the ranks of a job share: messages, and who has failed."""

    def __init__(self):
        self.changed = threading.Condition()
        self.messages = collections.defaultdict(collections.deque)
        self.failures = {}


class PostTransport(vkfuse.Transport):
    def __init__(self, post, rank, size):
        super().__init__(rank, size)
        self.post, self.exchanges, self.kept = post, 0, []

    def exchange(self, number, sends, receives, timeout):
        self.exchanges += 1
        assert 0 < timeout <= 121
        with self.post.changed:
            for to, data in sends:
                assert data.dtype == np.uint8 and not data.flags.writeable and to != self.rank
                self.post.messages[self.rank, to, number].append(data.tobytes())
            self.post.changed.notify_all()
            for source, data in receives:
                queue = self.post.messages[source, self.rank, number]
                if not self.post.changed.wait_for(lambda: queue or self.others(), timeout):
                    raise TimeoutError(f"rank {source} is silent.")
                if not queue:
                    raise ConnectionError(f"a rank has failed: {self.others()}")
                data[:] = np.frombuffer(queue.popleft(), np.uint8)
        self.kept.append((sends, receives))  # they outlive the exchange

    def others(self):
        return {rank: sentence for rank, sentence in self.post.failures.items() if rank != self.rank}

    def fail(self, sentence):
        with self.post.changed:
            assert self.rank not in self.post.failures  # once
            self.post.failures[self.rank] = sentence
            self.post.changed.notify_all()


def posts(ranks, kind=PostTransport):
    post = Post()
    return [kind(post, rank, ranks) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_transport_of_python(ranks, rng):
    x = whole_numbers(rng, ranks, 600)

    def work(transport):
        assert (transport.rank, transport.size) == (transports.index(transport), ranks)
        y = vkfuse.all_reduce(vkfuse.input("x", "float32", [600]) * 2, ranks) + 1
        program = vkfuse.compile_parallel({"y": vkfuse.all_gather(y, 0, ranks)}, transport)
        first = program(x[transport.rank])["y"]
        np.testing.assert_array_equal(program(x[transport.rank])["y"], first)
        return first

    transports = posts(ranks)
    for y in all_of(on_ranks(transports, work)):
        np.testing.assert_array_equal(y, np.tile(2 * x.sum(0) + 1, ranks))
    least = 6 if ranks > 1 else 2  # two of a compilation; each run begins with one, and has collectives
    assert all(one.exchanges >= least for one in transports)
    total = sum(int(data[-1]) for one in transports for sends, receives in one.kept for _, data in sends + receives)
    assert ranks == 1 or total > 0  # the memory is still there


def test_an_mlp_over_a_transport_of_python(arrays):
    check(on_ranks(posts(2), lambda transport: mlp().compile_parallel(transport, mesh=[2])(**arrays)), arrays)


def test_a_transport_that_is_dropped_lives_as_long_as_its_program():
    program = vkfuse.compile_parallel(vkfuse.input("x", "float32", [4]) * 2, PostTransport(Post(), 0, 1))
    np.testing.assert_array_equal(program(np.ones(4, np.float32))["y"], np.full(4, 2, np.float32))
    assert isinstance(program.transport, PostTransport) and program.transport.exchanges == 2


def test_arrays_of_an_exchange_outlive_it():
    """Also those of a run of fewer elements, whose messages took less memory than those of the next run."""
    transports, x = posts(2), vkfuse.input("x", "int32", ["n"])

    def work(transport):
        program = vkfuse.compile_parallel({"y": vkfuse.all_reduce(x, 2)}, transport)
        for n in (4_000, 600_000, 1_500_000):
            np.testing.assert_array_equal(program(np.arange(n, dtype=np.int32))["y"], 2 * np.arange(n))

    all_of(on_ranks(transports, work))
    for transport in transports:
        kept = [data for sends, receives in transport.kept for _, data in sends + receives]
        assert len({data.size for data in kept}) >= 3 and all(int(data.max()) >= 0 for data in kept)


class Raises(PostTransport):
    """Rank 1 raises in its exchange number `at`."""

    at, error = 3, ConnectionError("the cable is cut.")

    def exchange(self, number, sends, receives, timeout):
        if self.rank == 1 and self.exchanges == self.at:
            self.exchanges += 1
            raise self.error
        super().exchange(number, sends, receives, timeout)


@pytest.mark.parametrize("at", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "error, kind", [(ConnectionError("the cable is cut."), vkfuse.FileError), (KeyError("where"), vkfuse.InternalError)]
)
def test_a_rank_that_raises_in_its_transport(arrays, at, error, kind):
    transports = posts(2, type("RaisesThen", (Raises,), {"at": at, "error": error}))

    def work(transport):
        program = mlp().compile_parallel(transport, mesh=[2], timeout=60)
        with pytest.raises(vkfuse.Error) as raised:
            program(**arrays)
        with pytest.raises(vkfuse.Error, match="after a run that has failed"):
            program(**arrays)
        raise raised.value

    began = time.monotonic()
    results = on_ranks(transports, work)
    assert time.monotonic() - began < 50  # nobody waits for the timeout
    assert type(results[1]) is kind and f"The transport of rank 1 raises {type(error).__name__}: " in str(results[1])
    assert isinstance(results[0], vkfuse.FileError) and "a rank has failed: {1: " in str(results[0])
    assert transports[1].exchanges == at + 1  # it is not called again


def test_a_silent_rank_is_an_error_in_time(arrays):
    def work(transport):
        program = mlp().compile_parallel(transport, mesh=[2], timeout=0.3)
        return program if transport.rank == 1 else pytest.raises(vkfuse.FileError, program, **arrays)

    for transports in (posts(2), vkfuse.thread_transports(2)):
        began = time.monotonic()
        told, _ = all_of(on_ranks(transports, work))
        assert "rank 1" in str(told.value) and isinstance(told.value, OSError) and told.value.code == "io"
        assert 0.25 < time.monotonic() - began < 60


def test_what_fails_between_calls_is_told(arrays):
    transports = vkfuse.thread_transports(2)

    def work(transport):
        program = mlp().compile_parallel(transport, mesh=[2], timeout=60)
        if transport.rank == 1:
            return transport.fail("its data are gone")
        return program(**arrays)

    results = on_ranks(transports, work)
    assert results[1] is None and "Rank 1 has failed: its data are gone" in str(results[0])


def test_fail_that_raises_hides_nothing(arrays, monkeypatch):
    class Clumsy(Raises):
        at = 0

        def fail(self, sentence):
            super().fail(sentence)
            raise ValueError("in fail()")

    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: unraisable.append(str(hook.exc_value)))
    results = on_ranks(posts(2, Clumsy), lambda transport: mlp().compile_parallel(transport, mesh=[2]))
    assert "the cable is cut" in str(results[1]) and "in fail()" not in str(results[1])
    assert "in fail()" in unraisable


def test_the_gil_is_released_while_ranks_wait(arrays):
    """Rank 0 waits for rank 1 in its compilation and in its run, and this thread goes on."""
    transports, go, counted, made = vkfuse.thread_transports(2), threading.Event(), [], []

    def late(transport):
        if transport.rank == 1:
            go.wait(60)
        program = mlp().compile_parallel(transport, mesh=[2], compile_timeout=20)
        if transport.rank == 1:
            made.append(program)
        return program(**arrays)

    thread = threading.Thread(target=lambda: counted.extend(on_ranks(transports, late)))
    thread.start()
    time.sleep(0.2)
    assert not made  # it waits, and does not keep this thread from saying so
    go.set()
    thread.join()
    check(counted, arrays)


# ---- what is refused ----


def test_wrong_arguments():
    x = vkfuse.input("x", "float32", [4])
    (one,) = vkfuse.thread_transports(1)
    for ranks in (0, -1, 1025):
        with pytest.raises(vkfuse.InvalidArgument, match=f"1 to 1024 ranks, but {ranks} are asked for"):
            vkfuse.thread_transports(ranks)
    with pytest.raises(TypeError, match="must be a vkfuse.Transport"):
        vkfuse.compile_parallel(x, "mpi")
    with pytest.raises(TypeError, match="no option 'meshes'; there are: .*mesh, timeout, compile_timeout"):
        vkfuse.compile_parallel(x, one, meshes=[1])
    with pytest.raises(TypeError, match="timeout must be a number"):
        vkfuse.compile_parallel(x, one, timeout="long")
    with pytest.raises(vkfuse.InvalidArgument, match="timeout of nan seconds"):
        vkfuse.compile_parallel(x, one, timeout=float("nan"))
    with pytest.raises(vkfuse.InvalidArgument, match="no axis of 4294967296 ranks"):
        vkfuse.compile_parallel(x, one, mesh=[2**32])
    for rank, size, sentence in ((2, 2, "ranks 0 to 1, but rank 2"), (-1, 2, "rank -1"), (0, 0, "but 0 are given")):
        with pytest.raises(vkfuse.InvalidArgument, match=sentence):
            PostTransport(Post(), rank, size)
    with pytest.raises(TypeError):
        vkfuse.Transport()
    with pytest.raises(vkfuse.Unsupported, match="type Transport has no exchange"):
        one.exchange(0, [], [], 1.0)
    with pytest.raises(TypeError, match="no option 'rings'"):
        vkfuse.open_nccl(one, rings=2)
    with pytest.raises(vkfuse.Unsupported, match="/none/libcuda.so"):
        vkfuse.open_nccl(one, nccl="/none/libnccl.so", cuda="/none/libcuda.so")
    with pytest.raises(vkfuse.InvalidArgument, match="-1 bytes"):
        vkfuse.open_nccl(one, least_bytes=-1)


@pytest.mark.parametrize("options, kind, sentence", [
    ({"mesh": [3]}, vkfuse.InvalidArgument, r"mesh of \[3\] has 3 ranks, but the job has 1"),
    ({"mesh": [0]}, vkfuse.InvalidArgument, r"one rank or more along each axis, but \[0\]"),
    ({"timeout": 0}, vkfuse.InvalidArgument, "above 0 ms, but 0 ms"),
    ({"compile_timeout": -1.5}, vkfuse.InvalidArgument, "and -1500 ms are given"),
    ({"memory_budget": 99}, vkfuse.Unsupported, "99 bytes"), ({"plan": "{}"}, vkfuse.Unsupported, "saved plan"),
    ({"numerics": "exact"}, vkfuse.InvalidArgument, "exact"),
])  # fmt: skip
def test_wrong_options(options, kind, sentence):
    (one,) = vkfuse.thread_transports(1)
    with pytest.raises(kind, match=sentence):
        vkfuse.compile_parallel(vkfuse.input("x", "float32", [4]), one, **options)


def test_an_option_that_is_wrong_on_one_rank_is_told(arrays):
    def work(transport):
        wrong = {"meshes": [2]} if transport.rank == 1 else {}
        return mlp().compile_parallel(transport, mesh=[2], compile_timeout=60, **wrong)

    for transports in (posts(2), vkfuse.thread_transports(2)):
        began = time.monotonic()
        results = on_ranks(transports, work)
        assert time.monotonic() - began < 50  # nobody waits for the timeout
        assert isinstance(results[1], TypeError) and "no option 'meshes'" in str(results[1])
        assert isinstance(results[0], vkfuse.FileError) and "no option 'meshes'" in str(results[0])


def test_wrong_inputs():
    x, z = vkfuse.input("x", "float32", [4]), vkfuse.input("z", "float32", [4])
    values = np.ones(4, np.float32)

    def made():
        return vkfuse.compile_parallel({"y": x + z}, vkfuse.thread_transports(1)[0], timeout=1e30)

    program = made()
    for call, sentence in (
        (lambda: program(values, values, values), "takes 2 inputs, and 3 are given"),
        (lambda: program(values, x=values), "'x' is given twice"),
        (lambda: program(q=values), "no input 'q'"),
        (lambda: program(values, np.ones((4, 1), np.float32)), r"shape \[4, 1\] is given"),
        (lambda: program.upload(q=values), "no input 'q'"),
    ):
        with pytest.raises(vkfuse.InvalidArgument, match=sentence):
            call()
    np.testing.assert_array_equal(program(values, values)["y"], values * 2)  # these were not errors of the job
    for call, sentence in (
        (lambda program: program(values), "Input 'z' .*was not given"),
        (lambda program: program(values, np.ones(5, np.float32)), "'z'"),
        (lambda program: program.execute(), "was not given"),
    ):
        program = made()
        with pytest.raises(vkfuse.InvalidArgument, match=sentence):
            call(program)
        with pytest.raises(vkfuse.InvalidArgument, match="after a run that has failed"):
            program(values, values)


def test_ranks_of_other_programs_are_told_which_differs():
    def work(transport):
        x = vkfuse.input("x", "float32", [4])
        return vkfuse.compile_parallel(vkfuse.all_reduce(x, 2, ["sum", "max"][transport.rank]), transport)

    for rank, raised in enumerate(on_ranks(vkfuse.thread_transports(2), work)):
        assert isinstance(raised, vkfuse.InvalidArgument)
        assert f"Rank {1 - rank} has another program than rank {rank}" in str(raised)
        assert raised.context == [f"compiling rank {rank}'s part of a program"]


def test_a_transport_without_exchange_says_so():
    class Lame(vkfuse.Transport):
        pass

    with pytest.raises(vkfuse.InternalError, match="type Lame has no exchange"):
        vkfuse.compile_parallel(vkfuse.input("x", "float32", [4]), Lame(0, 1))
    Lame(0, 1).fail("which nobody hears")

    class Unready(vkfuse.Transport):
        def __init__(self):
            pass

    with pytest.raises(TypeError, match=r"does not call super\(\).__init__\(rank, size\)"):
        vkfuse.compile_parallel(vkfuse.input("x", "float32", [4]), Unready())


def test_the_process_ends_while_a_rank_waits():
    """A thread of the background is in an exchange of Python's when the interpreter ends."""
    code = """
import threading, time, vkfuse
class Waits(vkfuse.Transport):
    def exchange(self, number, sends, receives, timeout):
        inside.set()
        time.sleep(60)
inside = threading.Event()
work = lambda: vkfuse.compile_parallel(vkfuse.input("x", "float32", [4]), Waits(0, 2))
threading.Thread(target=work, daemon=True).start()
assert inside.wait(60)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, env={**os.environ})
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)


# ---- MPI: a stand-in for mpi4py, whose ranks are threads ----


class StandIn:
    """Those functions of mpi4py.MPI and of its communicators that open_mpi() calls."""

    BYTE, ANY_SOURCE = "byte", -1

    class Exception(RuntimeError):
        pass

    class Status:
        source = count = None

        def Get_count(self, _):
            return self.count

        def Get_source(self):
            return self.source

    class Request:
        def __init__(self, test):
            self.test = test

        def Test(self, status=None):
            return self.test(status)

    class Communicator:
        def __init__(self, messages, rank, size):
            self.messages, self.rank, self.size = messages, rank, size
            self.duplicates, self.left = 0, None  # left: messages that it still sends

        def Dup(self):
            self.duplicates += 1
            return self

        def Get_rank(self):
            return self.rank

        def Get_size(self):
            return self.size

        def Isend(self, given, dest, tag):
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise StandIn.Exception("MPI_ERR_OTHER")
            data = bytes(given[0])
            self.messages[self.rank, dest, tag].append(data)
            return StandIn.Request(lambda status: True)

        def Irecv(self, given, source, tag):
            queue, state = self.messages[source, self.rank, tag], []

            def test(status):
                if not state and queue:
                    state.append(queue.popleft())
                    memoryview(given[0])[: len(state[0])] = state[0]
                if state and status is not None:
                    status.count, status.source = len(state[0]), source
                return bool(state)

            return StandIn.Request(test)

        def Iprobe(self, source, tag, status):
            for other in range(self.size):
                queue = self.messages[other, self.rank, tag]
                if queue:
                    status.count, status.source = len(queue[0]), other
                    return True
            return False

        def Recv(self, given, source, tag):
            given[0][:] = self.messages[source, self.rank, tag].popleft()


@pytest.fixture
def communicators(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=StandIn))
    monkeypatch.setenv("UCX_TLS", "all")
    messages = collections.defaultdict(collections.deque)
    return [StandIn.Communicator(messages, rank, 2) for rank in range(2)]


def test_mpi_by_mpi4py(communicators, arrays):
    def work(communicator):
        transport = vkfuse.open_mpi(communicator)
        assert communicator.duplicates == 1 and (transport.rank, transport.size) == (communicator.rank, 2)
        return mlp().compile_parallel(transport, mesh=[2])(**arrays)

    check(on_ranks(communicators, work), arrays)
    assert os.environ["UCX_TLS"] == "all"  # what the user has set stays


@pytest.mark.parametrize("left", [0, 2])
def test_mpi_that_fails(communicators, arrays, left):
    communicators[1].left = left

    def work(communicator):
        transport = vkfuse.open_mpi(communicator)
        return mlp().compile_parallel(transport, mesh=[2], timeout=0.5, compile_timeout=60 if left else 0.5)(**arrays)

    results = on_ranks(communicators, work)
    assert str(results[1]).startswith("MPI of rank 1 fails: MPI_ERR_OTHER.\n")
    assert str(results[0]).startswith("Rank 0 heard nothing from rank 1 until the timeout.\n")


def test_mpi_tells_why_a_rank_has_failed(communicators, arrays):
    def work(communicator):
        program = mlp().compile_parallel(vkfuse.open_mpi(communicator), mesh=[2], timeout=60)
        return program(arrays["x"], arrays["w1"]) if communicator.rank == 1 else program(**arrays)

    results = on_ranks(communicators, work)
    assert "Input 'w2'" in str(results[1])
    assert str(results[0]).startswith("Rank 1 has failed: Input 'w2'") and isinstance(results[0], vkfuse.FileError)


def test_mpi_of_another_size_is_an_error(communicators):
    communicators[0].messages[1, 0, 1].append(b"abc")  # a message that no program sends
    transport = vkfuse.open_mpi(communicators[0])
    with pytest.raises(vkfuse.FileError, match="Rank 1 sent 3 bytes where rank 0 expects 16"):
        vkfuse.compile_parallel(vkfuse.all_reduce(vkfuse.input("x", "float32", [4]), 2), transport)


def test_without_mpi4py_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setenv("UCX_TLS", "all")
    with pytest.raises(vkfuse.Unsupported, match="needs mpi4py, which cannot be imported: "):
        vkfuse.open_mpi()

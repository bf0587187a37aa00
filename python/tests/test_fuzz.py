"""Random arguments for everything that is public: an exception or a result, and never the end of the interpreter."""

import random
import subprocess
import sys

import numpy as np
import pytest

import vkfuse

# What does something to the process, takes long by itself, or is asked for it elsewhere.
LEFT_OUT = {"Device", "default_device", "jit", "load", "load_tensors", "onnx_operators"}


def arguments(rng):
    """Things that callers pass by mistake, beside some that are right."""
    tensor = vkfuse.input(f"x{rng.random()}", rng.choice(["float32", "int32", "bool", "float16", "uint64"]),
                          rng.choice([[], [3], [2, 3], ["n", 4], [1, 1, 2, 2], [0]]))  # fmt: skip
    return [
        None, True, 0, -1, 1, 2, 7, 2**31, -(2**63), 2**64, 10**30, 0.5, -1e308, float("nan"), float("inf"), 1j,
        "", "float32",
        "bfloat16", "n", "\0", "\ud800", b"", b"abc", [], (), [1, 2], (0, -1), (2, 3), ["n"], [[1]], [None], {},
        {"x": 1}, {1: 2},
        object(), object, len, tensor, tensor, tensor, [tensor, tensor], {"y": tensor}, np.float32(1),
        np.int64(5), np.bool_(True),
        np.ones(3, np.float32), np.ones((2, 3), np.float32), np.ones((3, 2)), np.ones(3, ">f4"), np.zeros((0, 3),
        np.float32),
        np.ones((4, 4), np.float32)[::2, ::-1], np.array(["a"]), np.array([None]), np.ones(2, np.complex64),
        np.arange(3),
        vkfuse.array([1.0, 2.0], "float32"), vkfuse.Dim("m", 1, 8), vkfuse.Dim("bad", -5, -7, 0), range(3),
        iter([1, 2]),
        memoryview(b"1234"), np.dtype("int8"), Exception, ..., slice(None), vkfuse.Graph(), vkfuse.default_device(),
    ]  # fmt: skip


def some_call(rng, targets):
    owner, name = rng.choice(targets)
    pool = arguments(rng)
    function = getattr(rng.choice(owner) if isinstance(owner, list) else owner, name)
    args = [rng.choice(pool) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 5]))]
    names = [
        "axis",
        "dtype",
        "shape",
        "keepdims",
        "device",
        "x",
        "causal",
        "mask",
        "steps",
        "groups",
        "fusion",
        "plan",
        "name",
    ]
    kwargs = {rng.choice(names): rng.choice(pool) for _ in range(rng.choice([0, 0, 0, 1, 2]))}
    return name, function, args, kwargs


def targets():
    tensor = vkfuse.input("x", "float32", [2, 3])
    program = vkfuse.compile(tensor + 1)
    stream = vkfuse.Stream()
    owners = [vkfuse, [tensor, vkfuse.input("i", "int32", [4]), stream.array(np.ones((2, 3), np.float32))],
    program, stream,
              vkfuse.array(np.ones((2, 3), np.float32)), vkfuse.Graph(), vkfuse.default_device()]  # fmt: skip
    found = []
    for owner in owners:
        names = dir(owner[0] if isinstance(owner, list) else owner)
        for name in names:
            value = getattr(type(owner), name, None) if not isinstance(owner, list) else None
            if name.startswith("_") and name not in ("__call__", "__getitem__", "__add__", "__matmul__", "__pow__"):
                continue
            if (
                name in LEFT_OUT
                or isinstance(value, property)
                or not callable(getattr(owner[0] if isinstance(owner, list) else owner, name))
            ):
                continue
            if name == "tune":
                continue  # takes the milliseconds that it is given
            found.append((owner, name))
    return found


def fuzz(seed, count):
    rng = random.Random(seed)
    everything = targets()
    outcomes = {"result": 0, "exception": 0}
    for _ in range(count):
        name, function, args, kwargs = some_call(rng, everything)
        if name in ("zeros", "ones", "full", "empty", "iota", "random_bits", "arange") and any(
            isinstance(one, int) and one > 10**6 for one in args
        ):
            continue
        try:
            function(*args, **kwargs)
            outcomes["result"] += 1
        except Exception as error:  # noqa: BLE001
            outcomes["exception"] += 1
            assert str(error) or isinstance(error, (AssertionError, StopIteration)), (name, args, kwargs, repr(error))
            assert not isinstance(error, vkfuse.InternalError), (name, args, kwargs, error)
            assert "std::" not in str(error), (name, args, kwargs, error)
            assert not isinstance(error, SystemError), (name, args, kwargs, error)
    return outcomes


@pytest.mark.parametrize("seed", range(4))
def test_random_arguments(seed):
    """In a separate process: a crash is its exit status."""
    code = (
        f"import sys; sys.path.insert(0, {str(__import__('pathlib').Path(__file__).parent)!r})\n"
        f"import test_fuzz; print(test_fuzz.fuzz({seed}, 1500))"
    )
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert "'result': 0" not in done.stdout

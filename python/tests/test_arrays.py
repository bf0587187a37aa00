"""Arrays on the device and of other libraries, dtypes, and what is refused."""

import gc
import mmap
import os

import numpy as np
import pytest

import vkfuse

DTYPES = [
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4), (3, 0, 2), (1,) * 6])
def test_elements_come_back_as_they_were(dtype, shape, rng):
    x = rng.integers(0, 2, shape).astype(dtype)
    a = vkfuse.array(x)
    assert a.shape == shape and a.dtype == x.dtype and a.size == x.size and a.nbytes == x.nbytes
    np.testing.assert_array_equal(a.numpy(), x)
    np.testing.assert_array_equal(np.asarray(a), x)
    np.testing.assert_array_equal(np.from_dlpack(a), x)
    np.testing.assert_array_equal(vkfuse.from_dlpack(x).numpy(), x)


def test_bfloat16_by_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([[1.5, -2], [3, 1e30]], ml_dtypes.bfloat16)
    a = vkfuse.array(x)
    assert a.dtype == x.dtype
    np.testing.assert_array_equal(a.numpy(), x)
    np.testing.assert_array_equal(vkfuse.array(x.T).numpy(), x.T)
    np.testing.assert_array_equal(vkfuse.array([1.5, 2], dtype="bfloat16").numpy(), np.array([1.5, 2], x.dtype))
    assert a.__dlpack_device__() == (1, 0) and "dltensor" in repr(a.__dlpack__())
    assert vkfuse.from_dlpack(a).dtype == x.dtype
    np.testing.assert_array_equal(vkfuse.jit(lambda v: v.bitcast("uint16"))(x), x.view(np.uint16))


def test_what_is_not_contiguous_is_copied_and_right(rng):
    x = rng.standard_normal((6, 7)).astype(np.float32)
    for view in (x.T, x[::2], x[:, ::-1], x[1:4, 2:5], np.broadcast_to(x[0], (3, 7))):
        np.testing.assert_array_equal(vkfuse.array(view).numpy(), view)
        np.testing.assert_allclose(vkfuse.jit(lambda a: a * 2)(view), view * 2)


@pytest.mark.parametrize("bad, sentence", [
    (np.ones(2, ">f4"), "big-endian"), (np.ones(2, ">i8"), "big-endian"), (np.ones(2, np.complex64), "complex64"),
    (np.array(["a"]), "<U1"), (np.array([None]), "object"), (np.ones(2, np.longdouble), "float128"),
    (np.array(["2026"], "datetime64[s]"), "datetime64"), (np.zeros(2, [("a", "f4"), ("b", "i4")]), "f4"),
])  # fmt: skip
def test_other_elements_are_a_sentence(bad, sentence):
    with pytest.raises(vkfuse.Error, match=sentence) as raised:
        vkfuse.array(bad)
    assert str(raised.value).count("\n") == 0 and str(raised.value).endswith(".")
    with pytest.raises((vkfuse.Error, TypeError)):
        vkfuse.jit(lambda a: a + 1)(bad)


class Elsewhere:
    """An array of a library whose device is another one."""

    dtype, shape = np.dtype("float32"), (3,)

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **_):
        raise AssertionError("It must not be exported.")


def test_arrays_on_devices_of_other_libraries_are_refused():
    for use in (vkfuse.from_dlpack, vkfuse.array, vkfuse.jit(lambda a: a + 1)):
        with pytest.raises(vkfuse.InvalidArgument, match="copy it to the host first"):
            use(Elsewhere())


def test_programs_of_device_arrays_stay_on_the_device():
    f = vkfuse.jit(lambda a, b: (a + b, a * b))
    a = vkfuse.array(np.array([1, 2], np.float32))
    both = f(a, np.array([3, 4], np.float32))
    assert all(isinstance(one, vkfuse.Array) for one in both)
    for _ in range(50):
        a = f(a, both[1])[0]
    np.testing.assert_array_equal(a.numpy(), [151, 402])
    a.write(np.array([5, 6], np.float32))
    np.testing.assert_array_equal(a.numpy(), [5, 6])
    with pytest.raises(vkfuse.InvalidArgument, match=r"float32\[2\]"):
        a.write(np.zeros(3, np.float32))


def test_arrays_of_another_device_are_refused(device):
    with vkfuse.Device(device.name) as other:
        assert vkfuse.default_device() is other and other != device
        there = vkfuse.array(np.ones(3, np.float32))
    assert vkfuse.default_device() == device and there.device == other
    program = vkfuse.jit(lambda a, b: a + b, device=device).compile(np.ones(3, np.float32), np.ones(3, np.float32))
    with pytest.raises(vkfuse.InvalidArgument, match="another device"):
        program(there, vkfuse.array(np.ones(3, np.float32)))
    with pytest.raises(vkfuse.InvalidArgument, match="another device"):
        vkfuse.Stream(device).wrap(there)


def test_donated_arrays_are_gone():
    g = vkfuse.Graph()
    x = g.input("x", "float32", [1024])
    g.output("y", x * 2 + 1)
    program = g.compile()
    a = vkfuse.array(np.ones(1024, np.float32))
    with program.submit({"x": a}, donate=["x"]) as run:
        pass
    assert run.done and a.donated
    np.testing.assert_array_equal(run.outputs["y"].numpy(), np.full(1024, 3))
    for use in (a.numpy, lambda: program(a), lambda: a.write(np.ones(1024, np.float32)), lambda: a.vulkan_handle):
        with pytest.raises(vkfuse.InvalidArgument, match="donated"):
            use()
    with pytest.raises(vkfuse.InvalidArgument, match="cannot be donated"):
        program.submit({"x": np.ones(1024, np.float32)}, donate="x")


def test_outputs_that_are_given_are_written():
    program = vkfuse.jit(lambda a: a + 1).compile(np.ones(4, np.float32))
    out = vkfuse.empty(4)
    with program.submit({"x0": vkfuse.array(np.ones(4, np.float32))}, outputs={"y0": out}) as run:
        assert run.outputs["y0"] is out
    np.testing.assert_array_equal(out.numpy(), np.full(4, 2))
    for wrong, sentence in [
        ({"y0": vkfuse.empty(5)}, r"\[4\]"),
        ({"z": out}, "no output 'z'"),
        ({"y0": vkfuse.empty(4, "int32")}, "int32"),
    ]:
        with pytest.raises(vkfuse.InvalidArgument, match=sentence):
            program.submit({"x0": np.ones(4, np.float32)}, outputs=wrong)


def test_memory_is_given_back():
    for _ in range(40):
        vkfuse.empty((1 << 22,)).write(np.zeros(1 << 22, np.float32))
        gc.collect(0)


def test_views_of_results_keep_them_alive():
    y = vkfuse.jit(lambda a: a + 1)(np.zeros(1000, np.float32))
    view = y[10:20]
    del y
    gc.collect()
    assert (view == 1).all() and view.flags.writeable


def test_copy_false_is_refused():
    a = vkfuse.array(np.ones(2, np.float32))
    with pytest.raises(ValueError, match="copy=False"):
        a.__array__(copy=False)
    with pytest.raises(BufferError, match="copy=False"):
        a.__dlpack__(copy=False)


def test_memory_is_shared_by_a_file_descriptor():
    device = vkfuse.default_device()
    if not device.shares_memory:
        with pytest.raises(vkfuse.Unsupported, match="does not share memory"):
            device.allocate_shared(16)
        return
    shared = device.allocate_shared(1 << 16)
    assert shared.shape == (1 << 16,) and str(shared.dtype) == "uint8"
    y = shared.view("float32", (1000,), offset=4096)
    program = vkfuse.compile({"y": vkfuse.input("x", "float32", (1000,)) * 2}, device)
    x = np.arange(1000, dtype=np.float32)
    program.submit({"x": device.array(x)}, {"y": y}).wait()
    descriptor, size, dedicated = shared.export_memory()
    assert size >= 1 << 16 and isinstance(dedicated, bool)
    if device.describe()["type"] == "cpu":  # the process can map it
        with mmap.mmap(descriptor, os.fstat(descriptor).st_size) as mapped:
            assert (x * 2).tobytes() in mapped[:]
    os.close(descriptor)
    np.testing.assert_array_equal(y.numpy(), x * 2)
    with pytest.raises(vkfuse.InvalidArgument, match="no part of a buffer of 65536 bytes"):
        shared.view("float32", (1000,), offset=65536 - 256)
    with pytest.raises(vkfuse.InvalidArgument, match="from offset 3"):
        shared.view("uint8", (5,), offset=3)
    with pytest.raises(vkfuse.InvalidArgument, match="byte -1"):
        shared.view("uint8", (5,), offset=-1)
    with pytest.raises(vkfuse.InvalidArgument, match="not allocated to be shared"):
        device.array(x).export_memory()
    with pytest.raises(vkfuse.InvalidArgument, match="-1 bytes"):
        device.allocate_shared(-1)


def test_runs_wait_for_timelines():
    device = vkfuse.default_device()
    before, after = vkfuse.Timeline(device), vkfuse.Timeline(device)
    program = vkfuse.compile({"y": vkfuse.input("x", "float32", (8,)) + 1}, device)
    x = device.array(np.zeros(8, np.float32))
    run = program.submit({"x": x}, wait_for=[(before, 2)], signal=[(after, 5)])
    assert not after.wait(5, 0.05) and not run.done and after.value == 0
    before.signal(2)
    run.wait()
    assert after.wait(5, 10) and after.value == 5
    np.testing.assert_array_equal(run.outputs["y"].numpy(), np.ones(8))
    with pytest.raises(TypeError, match="pairs of a vkfuse.Timeline and a value"):
        program.submit({"x": x}, wait_for=[before])
    if not device.shares_timelines:
        with pytest.raises(vkfuse.Unsupported, match="does not share timeline semaphores"):
            before.export()

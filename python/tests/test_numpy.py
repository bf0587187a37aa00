"""Where a tensor's functions once differed from NumPy's without a word."""

import numpy as np
import pytest

import vkfuse
from test_ops import run


def same(f, *arrays):
    """All results of f are NumPy's."""
    for i, (got, want) in enumerate(zip(run(f, *arrays), f(*arrays), strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"result {i}")
        assert got.shape == np.shape(want), f"result {i}"


X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


def test_without_an_axis_all_elements_are_meant():
    y = -X
    same(lambda a: [
        np.take(a, [7, -1]), np.take(a, [[0], [59]], axis=None), np.take(a, 3, axis=1), np.argsort(a, axis=None),
        np.concatenate([a, a * 2], axis=None), np.take_along_axis(a, np.array([4, -4]), None), np.argsort(a),
        np.sum(a, axis=None, dtype=None, out=None), np.transpose(a, axes=None), np.transpose(a, axes=(1, 0, 2)),
    ], y)  # fmt: skip
    np.testing.assert_array_equal(run(lambda a: vkfuse.take(a, [7, -1]), X), [7, 59])
    joined = run(lambda a: vkfuse.concatenate([a, np.ones(2, np.float32)], None), X)
    np.testing.assert_array_equal(joined[-3:], [59, 1, 1])
    np.testing.assert_array_equal(run(lambda i: vkfuse.take(X, i, axis=0), np.array([2, 9], np.int32)), X[[2, 2]])
    with pytest.raises(vkfuse.InvalidArgument, match="have one dimension, and not 2"):
        run(lambda a: np.take_along_axis(a, np.zeros((1, 2), int), None), X)
    with pytest.raises(vkfuse.InvalidArgument, match="0 were given"):
        run(lambda a: np.transpose(a, ()), X)


def test_dot_of_more_dimensions_is_no_matmul():
    a, b = X, np.arange(40, dtype=np.float32).reshape(2, 5, 4)
    same(lambda a, b: [
        np.dot(a, b), a.dot(b), np.dot(a[0], b), np.dot(a[0, 0], b), np.dot(a, b[0]), np.dot(a, b[0, :, 0]),
        np.dot(a, 2), np.dot(3, a), np.dot(a[0, 0], a[1, 1]), np.dot(np.ones((2, 5), np.float32), b),
        np.dot(a, b[0, 0, 0]), np.dot(b, np.ones((4, 4), np.float32)), a[0].dot(b[1]),
    ], a, b)  # fmt: skip


def test_axes_of_an_array_apart_from_an_integer_are_first():
    same(lambda a: [
        a[0, :, [0, 1]], a[0, ..., [1, 2, 3]], a[1, None, [1, 2]], a[[0, 1], :, 0], a[:, 0, [1, 2]], a[[0, 1], 0],
        a[0, [0, 1]], a[[1, 2], None], a[None, 0, :, [[0, 1], [2, 3]]], a[:, 1, ..., [1, 4]], a[0, None, 1, [2, 3]],
        a[-1, 1:3, np.array([3, 0])], a[1, :, np.array(2)], a[:, None, [0, 1], 2], a[0, :, []], a[(1, 2),],
    ], X)  # fmt: skip
    i = np.array([0, 1], np.int32)
    np.testing.assert_array_equal(run(lambda a, i: a[0, :, i] + 0, X, i), X[0, :, i])


def test_positions_of_the_host_count_from_the_end():
    same(lambda a: [
        a[[-1]], a[np.array([-1, 0])], a[:, [[-4, 3]]], a[np.array([-3, 2], np.int8)], a[np.array([2], np.uint64)],
        a[[]], np.take(a, [-1], 1), np.take(a, -2, 2), np.take_along_axis(a, np.array([[[-1]]] * 3), 1),
    ], X)  # fmt: skip
    np.testing.assert_array_equal(run(lambda a: a.gather([-1, 0], 2), X), X[:, :, [-1, 0]])
    np.testing.assert_array_equal(run(lambda a: a.take_along([[[-2]]]), X), X[:, :, -2:-1])
    # Those of a tensor are clamped, as docs/python.md says.
    np.testing.assert_array_equal(run(lambda a, i: a[i], X, np.array([-1, 9], np.int32)), X[[0, 2]])


@pytest.mark.parametrize("f, position, size", [
    (lambda a: a[[0, 3]], "3", 3), (lambda a: a[:, np.array([-5])], "-5", 4), (lambda a: np.take(a, [60]), "60", 60),
    (lambda a: np.take(a, [1, 5], 2), "5", 5), (lambda a: np.take_along_axis(a, np.full((3, 1, 1), -6), 2), "-6", 5),
    (lambda a: a[np.array([2**64 - 1], np.uint64)], "18446744073709551615", 3), (lambda a: a.gather([7]), "7", 3),
    (lambda a: a[0:0][[0]], "0", 0),
])  # fmt: skip
def test_positions_of_the_host_that_are_not_there_are_a_sentence(f, position, size):
    sentence = f"^The position {position} is out of range: the axis has {size} elements.$"
    with pytest.raises(vkfuse.InvalidArgument, match=sentence):
        run(f, X)


def test_positions_along_a_symbol_do_not_count_from_its_end():
    x = vkfuse.input("x", "float32", ["n", 4])
    program = vkfuse.compile({"y": x[[1, 9]]})
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(program(data)["y"], data[[1, 2]])
    with pytest.raises(vkfuse.InvalidArgument, match="The position -2 counts from the end of the dimension 'n'"):
        x[[0, -2]]


def test_other_positions_are_refused():
    for f in (lambda a: a[[0.5]], lambda a: a[np.zeros(0)], lambda a: np.take(a, [True])):
        with pytest.raises(TypeError, match="Positions are integers"):
            run(f, X)
    for f in (lambda a: a[[True, False, True]], lambda a: a[[[True]]], lambda a: a[np.True_]):
        with pytest.raises(TypeError, match="not indexed with bools"):
            run(f, X)


def test_positions_of_all_elements_keep_their_dimensions():
    same(lambda a: [
        a.argmax(keepdims=True), a.argmin(keepdims=True), np.argmax(a, keepdims=True), np.argmin(a, 1, keepdims=True),
        a.argmax(), a.argmax(-1),
    ], X)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "bfloat16"])
def test_floor_divide_agrees_with_the_remainder(dtype, rng):
    if dtype == "float64" and "float64" not in vkfuse.default_device().describe()["features"]:
        pytest.skip("The device has no 64-bit floats.")
    dtype = getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else np.dtype(dtype).type
    b = rng.choice(np.array([0.1, 0.2, 0.3, -0.1, 0.7, 3, -7, 1e-2, 0, np.inf, -np.inf], dtype), 500)
    a = np.concatenate([np.arange(-50, 50), rng.standard_normal(396) * 100, [np.inf, np.nan, 0, -0.0]]).astype(dtype)
    with np.errstate(all="ignore"):
        pairs = [(run(f, a, b), f(a, b)) for f in (lambda a, b: a // b, np.floor_divide)]
        for number in (0.1, -0.3, 7, 0):
            pairs.append((run(lambda a: a // number, a), a // dtype(number)))
            pairs.append((run(lambda b: number // b, b), dtype(number) // b))
    for got, want in pairs:
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
        is_number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(want)[is_number])
    assert run(lambda a: a // 0.1, np.ones(1, np.float32))[0] == 9  # 1 / 0.1f rounds to 10


@pytest.mark.parametrize("f, sentence", [
    (lambda a: a.squeeze(3), "no axis 3 of a tensor of 3 dimensions"), (lambda a: np.squeeze(a, -4), "no axis -4"),
    (lambda a: a.squeeze((0, 0)), "axis 0 is named twice"), (lambda a: a.squeeze((1, -2)), "axis 1 is named twice"),
    (lambda a: np.stack([a, a], -5), "no axis -5 of a tensor of 4 dimensions"), (lambda a: np.stack([a], 4), "axis 4"),
    (lambda a: np.flip(a, (1, 1)), "twice"), (lambda a: np.expand_dims(a, 4), "at 4"), (lambda a: np.take(a, [0], 3),
    "no axis 3"), (lambda a: a.sum(3), "axis 3"), (lambda a: np.swapaxes(a, 0, 3), "axis 3"),
    (lambda a: np.concatenate([a, a], -4), "axis -4"), (lambda a: np.argsort(a, 3), "axis 3"),
    (lambda a: a.argmax(3), "axis 3"), (lambda a: vkfuse.stack([]), "one tensor or more"),
])  # fmt: skip
def test_axes_that_are_not_there_are_a_sentence(f, sentence):
    with pytest.raises(vkfuse.InvalidArgument, match=sentence):
        run(f, X[:1, :1, :1])


def test_arrays_and_integers_of_numpy_are_operands():
    one = np.ones((3, 4, 5), np.float32)
    same(lambda a: [
        np.stack([one, a]), np.stack([a, one], axis=np.int64(-1)), np.squeeze(a[:1], np.int64(0)),
        np.squeeze(a[:1, :1], (0, np.int32(1))), np.squeeze(a[:1, None, 0:1]), np.transpose(a, (-1, 0, 1)),
    ], X)  # fmt: skip


def test_where_of_numbers():
    c = np.array([True, False])
    for a, b, dtype in [(1.0, 0.0, np.float32), (1, 0.5, np.float32), (1, 0, np.int32), (True, False, bool),
                        (True, 2, np.int32), (True, 0.5, np.float32)]:  # fmt: skip
        for where in (np.where, vkfuse.where):
            got = run(lambda c: where(c, a, b), c)
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, np.where(c, a, b))
    x = np.array([3, -4], np.int8)
    assert run(lambda c, x: np.where(c, x, 0), c, x).dtype == np.int8
    with pytest.raises(vkfuse.InvalidArgument, match="int32 holds no number"):
        run(lambda c: np.where(c, 2**40, 0), c)


def test_pad_takes_values_that_the_dtype_holds():
    for value, dtype in [(2**53 + 2, "int64"), (-128, "int8"), (3.0, "int32"), (np.int64(7), "int64"), (0.1, "float32"),
                         (True, "bool"), (2**63, "uint64")]:  # fmt: skip
        x = np.ones(2, dtype)
        got = run(lambda a: a.pad([1], [0], value), x)
        np.testing.assert_array_equal(got, np.pad(x, (1, 0), constant_values=value))
    for value, dtype, sentence in [
        (2**53 + 1, "int64", "^pad\\(\\) takes a value that a double holds, and 9007199254740993 is none.$"),
        (2**64 - 1, "uint64", "18446744073709551615 is none"), (300, "int8", "int8 holds no number 300"),
        (0.5, "int32", "0.5 is no int32"), (float("nan"), "int32", "nan is no int32"), (-1, "uint8", "-1"),
    ]:  # fmt: skip
        with pytest.raises(vkfuse.InvalidArgument, match=sentence):
            run(lambda a: a.pad([1], [0], value), np.ones(2, dtype))

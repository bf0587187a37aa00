"""Ops against NumPy."""

import numpy as np
import pytest

import vkfuse

UNARY = """abs sign floor ceil trunc sqrt exp exp2 expm1 log log2 log1p sin cos tan sinh cosh tanh arcsin arccos arctan
    arcsinh square negative reciprocal rint isnan isinf isfinite""".split()
BINARY = "add subtract multiply divide minimum maximum power remainder fmod arctan2 less greater_equal equal".split()


def run(f, *arrays, **options):
    return vkfuse.jit(f, **options)(*arrays)


@pytest.mark.parametrize("name", UNARY)
def test_numpy_functions_of_one_tensor(name, rng):
    x = rng.uniform(0.1, 0.9, (3, 5)).astype(np.float32)
    function = getattr(np, name)
    np.testing.assert_allclose(run(function, x), function(x), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", BINARY)
def test_numpy_functions_of_two(name, rng):
    a, b = (rng.uniform(0.2, 3, shape).astype(np.float32) for shape in ((4, 1, 3), (5, 3)))
    function = getattr(np, name)
    np.testing.assert_allclose(run(function, a, b), function(a, b), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_divide_as_python_does(dtype):
    info = np.iinfo(dtype)
    a = np.array([7, info.max, info.min, 9, info.min + 1, 5], dtype)
    b = np.array([2, 3, 3, 4, 5, 1 if info.min == 0 else -3 % 7], dtype)
    if info.min < 0:
        b[:3] = [-2, 3, 3]
    assert (run(lambda x, y: x // y, a, b) == a // b).all()
    assert (run(lambda x, y: x % y, a, b) == a % b).all()
    assert (run(lambda x: 100 // x, np.array([3, 7, 100], dtype)) == np.array([33, 14, 1], dtype)).all()


def test_operators(rng):
    x, y = (rng.uniform(1, 2, (3, 4)).astype(np.float32) for _ in range(2))
    f = lambda a, b: (-a + 2 * b - a / b) ** 2 % 1.5 + abs(1 - a) + (3 // b)  # noqa: E731
    np.testing.assert_allclose(run(f, x, y), f(x, y), rtol=1e-4)
    m = rng.standard_normal((4, 2)).astype(np.float32)
    np.testing.assert_allclose(run(lambda a, b: a @ b, x, m), x @ m, rtol=1e-5)
    bits = np.array([5, 12, 255], np.uint8)
    g = lambda a: ((a & 6) | 1) ^ (a << 1) ^ ~a ^ (a >> 2)  # noqa: E731
    assert (run(g, bits) == g(bits)).all()
    truth = np.array([True, False])
    assert (run(lambda a: ~a | (a & True) ^ False, truth) == (~truth | (truth & True) ^ False)).all()


def test_indexing(rng):
    x = rng.standard_normal((4, 5, 6)).astype(np.float32)
    for index in [
        0,
        -1,
        (1, 2, 3),
        (slice(1, 3), ..., slice(None, None, -1)),
        (..., 2),
        (None, 0, slice(4, None, -2)),
        (slice(None), None, slice(-3, -1)),
        (Ellipsis,),
        ([2, 0], slice(1, None)),
        (0, np.array([[1], [3]])),
    ]:
        np.testing.assert_array_equal(run(lambda a: a[index] + 0, x), x[index], err_msg=str(index))
    np.testing.assert_array_equal(run(lambda a: [row for row in a], x)[3], x[3])
    with pytest.raises(IndexError, match="4"):
        run(lambda a: a[0, 0, 0, 0], x)


REDUCTIONS = ["sum", "prod", "mean", "max", "min", "var", "std"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims, rng):
    x = rng.uniform(0.5, 1.5, (3, 4, 5)).astype(np.float32)
    for f in (
        lambda a: getattr(a, name)(axis=axis, keepdims=keepdims),
        lambda a: getattr(np, name)(a, axis=axis, keepdims=keepdims),
    ):
        np.testing.assert_allclose(run(f, x), f(x), rtol=1e-4, atol=1e-6)


def test_functions_of_shape(rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    for f in [
        lambda a: np.transpose(a, (2, 0, 1)) + 0, lambda a: a.T + 0, lambda a: a.reshape(6, -1) * 1,
        lambda a: a.ravel() + 0,
        lambda a: np.concatenate([a, a * 2], axis=1), lambda a: np.stack([a, -a], axis=-1), lambda a: np.flip(a, 1) + 0,
        lambda a: np.where(a > 0, a, 0.0), lambda a: np.clip(a, -0.5, 0.5), lambda a: np.expand_dims(a, 1) + 0,
        lambda a: np.broadcast_to(a[None], (5, 2, 3, 4)) + 0, lambda a: np.cumsum(a, axis=1), lambda a: a.argmax(),
        lambda a: np.argmin(a, axis=-1), lambda a: np.swapaxes(a, 0, 2) + 0, lambda a: np.squeeze(a[:1]) + 0,
    ]:  # fmt: skip
        np.testing.assert_allclose(run(f, x), f(x), rtol=1e-5, atol=1e-6)


def test_compositions(rng):
    x = rng.standard_normal((5, 8)).astype(np.float32)
    e = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(run(vkfuse.softmax, x), e / e.sum(-1, keepdims=True), rtol=1e-5)
    values, positions = run(lambda a: vkfuse.top_k(a, 3), x)
    np.testing.assert_array_equal(positions, np.argsort(-x, axis=-1, kind="stable")[:, :3])
    np.testing.assert_array_equal(values, np.take_along_axis(x, positions, -1))
    np.testing.assert_allclose(run(lambda a: vkfuse.normalize(a, -1, 1e-5), x).std(-1), 1, rtol=1e-3)
    labels = np.array([1, 0, 7, 3, 2], np.int32)
    np.testing.assert_allclose(
        run(vkfuse.cross_entropy, x, labels), -np.log(e / e.sum(-1, keepdims=True))[np.arange(5), labels], rtol=1e-4
    )
    kept = run(lambda a: vkfuse.dropout(a, 0.5, 3), np.ones((64, 64), np.float32))
    assert set(np.unique(kept)) == {0, 2} and 0.4 < (kept > 0).mean() < 0.6


def test_contractions(rng):
    q, k, v = (rng.standard_normal((1, 2, 6, 8)).astype(np.float32) for _ in range(3))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(8, dtype=np.float32)
    s = np.where(np.tril(np.ones((6, 6), bool)), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    want = e / e.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(run(lambda *a: vkfuse.attention(*a, causal=True), q, k, v), want, rtol=1e-4, atol=1e-5)
    x = rng.standard_normal((1, 3, 7, 7)).astype(np.float32)
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
    np.testing.assert_allclose(
        run(lambda a, b: vkfuse.conv(a, b, low=(1, 1), high=(1, 1)), x, w),
        np.einsum("bchwij,ocij->bohw", windows, w),
        rtol=1e-4,
        atol=1e-4,
    )
    b = rng.integers(0, 255, (3, 4)).astype(np.uint8)
    assert (run(lambda a: vkfuse.unpack_int4(a), b) == np.stack([b & 15, b >> 4], -1).reshape(3, 8)).all()
    i = rng.integers(-8, 8, (4, 3)).astype(np.int8)
    np.testing.assert_allclose(
        run(lambda a, sc: vkfuse.dequantize(a, sc, axis=0), i, np.arange(4, dtype=np.float32)),
        i * np.arange(4, dtype=np.float32)[:, None],
    )


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn",
                                  "float8_e8m0fnu"])
def test_float_codes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    codes = np.arange(16 if "4_" in name else 256, dtype=np.uint8)
    numbers = codes.view(getattr(ml_dtypes, name)).astype(np.float32)
    numbers = np.where(np.abs(numbers) < np.finfo(np.float32).tiny, 0, numbers) if "e8m0" in name else numbers
    decoded = run(lambda c: vkfuse.decode_float(c, name), codes)
    decoded = np.where(np.abs(decoded) < np.finfo(np.float32).tiny, 0, decoded) if "e8m0" in name else decoded
    np.testing.assert_array_equal(decoded, numbers)
    half = run(lambda c: vkfuse.decode_float(c, name, dtype="float16"), codes)
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half[1:100], numbers[1:100].astype(np.float16))
    is_number = np.isfinite(numbers) & (numbers != 0)
    again = run(lambda x: vkfuse.encode_float(x, format=name), numbers[is_number])
    assert (again == codes[is_number]).all()
    with pytest.raises(vkfuse.InvalidArgument, match="'format' of 'decode_float' is 'float8'; it must be one of"):
        run(lambda c: vkfuse.decode_float(c, "float8"), codes)


def test_custom_ops():
    x = np.array([-1, 0.5, 3], np.float32)
    swish = lambda a: vkfuse.custom("swish", "x0 / (1.0 + exp(-x0))", a) + 1  # noqa: E731
    np.testing.assert_allclose(run(swish, x), x / (1 + np.exp(-x)) + 1, rtol=1e-5)
    shader = """#version 450
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
layout(push_constant) uniform P { uint sizes[2]; };
void main() { uint i = gl_WorkGroupID.x * 64 + gl_LocalInvocationID.x; if (i < sizes[0]) b[i] = 2.0 * a[i]; }
"""
    twice = lambda a: vkfuse.custom_kernel("twice", shader, (3,), a, workgroup=64, tile=(64,))  # noqa: E731
    np.testing.assert_array_equal(run(twice, x), 2 * x)
    with pytest.raises(vkfuse.Error, match="nosuch"):
        run(lambda a: vkfuse.custom("bad", "nosuch(x0)", a), x)


def test_every_elementwise_op_has_a_function_and_a_sentence():
    text = (__import__("conftest").ROOT / "docs/ops.md").read_text()
    rows = text[text.index("## Elementwise") :].split("\n## ")[0]
    names = [line.split("|")[1].strip() for line in rows.splitlines() if line.startswith("| ")][1:]
    others = {"and": "logical_and", "or": "logical_or", "not": "logical_not", "xor": "logical_xor", "min": "minimum",
              "max": "maximum", "select": "where", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
              "gt": "greater", "ge": "greater_equal"}  # fmt: skip
    assert len(names) > 50
    for name in names:
        if name not in ("cast", "bitcast", "---"):
            assert getattr(vkfuse, others.get(name, name)).__doc__, name


def test_numbers_take_the_dtype_of_the_tensor():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    doubles = ["float64"] if "float64" in vkfuse.default_device().describe()["features"] else []
    for dtype in ("float16", "float32", *doubles, ml_dtypes.bfloat16, "int8", "uint64"):
        x = np.ones(3, dtype)
        assert run(lambda a: 2 * a + 1, x).dtype == x.dtype
    assert run(lambda a: a + 2**63, np.ones(1, np.uint64))[0] == 2**63 + 1
    for value, dtype, sentence in [
        (0.5, "int32", "0.5 is no int32"),
        (300, "uint8", "uint8 holds no number 300"),
        (-1, "uint32", "-1"),
        (2**64, "uint64", str(2**64)),
        (2, "bool", "True or False"),
    ]:
        with pytest.raises(vkfuse.InvalidArgument, match=sentence):
            run(lambda a: a + value if dtype != "bool" else vkfuse.logical_and(a, value), np.ones(2, dtype))


def test_composites_of_the_table(rng):
    x = rng.standard_normal((4, 6)).astype(np.float32)
    scale, bias = (rng.standard_normal(6).astype(np.float32) for _ in range(2))
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(run(lambda a: vkfuse.gelu(a, form="tanh"), x), tanh, rtol=2e-5, atol=1e-6)
    norm = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3)
    f = lambda a, s, b: vkfuse.layer_norm(a, s, b, epsilon=1e-3)  # noqa: E731
    np.testing.assert_allclose(run(f, x, scale, bias), norm * scale + bias, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(lambda a: vkfuse.layer_norm(a, None, None, epsilon=1e-3), x), norm, atol=1e-5)
    images = rng.standard_normal((1, 2, 4, 6)).astype(np.float32)
    pooled = images.reshape(1, 2, 2, 2, 3, 2).max((3, 5))
    assert (run(lambda a: vkfuse.max_pool(a, sizes=(2, 2), strides=(2, 2)), images) == pooled).all()
    assert "epsilon=1e-05" in vkfuse.layer_norm.__doc__


def test_composites_refuse_what_they_do_not_have():
    x = np.ones((2, 2), np.float32)
    for call, words in (
        (lambda a: vkfuse.gelu(a, shape="tanh"), "shape"),
        (lambda a: vkfuse.gelu(a, form="sine"), "sine"),
        (lambda a: vkfuse.gelu(a, form=3), "form"),
        (lambda a: vkfuse.layer_norm(a, epsilon="small"), "epsilon"),
        (lambda a: vkfuse.gelu(a, a), "gelu"),
        (lambda a: vkfuse.gelu(), "gelu"),
    ):
        with pytest.raises((vkfuse.Error, TypeError), match=words):
            run(call, x)


def test_collectives_of_one_rank_are_their_operand(rng):
    x = rng.normal(size=(4, 6)).astype(np.float32)

    def every(x):
        y = vkfuse.all_reduce(x, 1)
        y = vkfuse.all_reduce_mean(vkfuse.all_reduce(y, 1, "max"), 1)
        y = vkfuse.all_gather(vkfuse.reduce_scatter(y, 0, 1, join="min"), 1, 1)
        y = vkfuse.broadcast_from(vkfuse.all_to_all(y, 0, 1, 1), 0, 1)
        y = vkfuse.replicate(vkfuse.shard(vkfuse.send_receive(y, [0]), 0, 0) * 2)
        return vkfuse.micro_batch(vkfuse.at_stage(y, 3, 0), -1)

    np.testing.assert_array_equal(run(every, x), x * 2)


def test_collectives_refuse_what_one_device_cannot_compute():
    x = np.ones((4, 6), np.float32)
    with pytest.raises(vkfuse.Error, match="between 2 ranks"):
        run(lambda x: vkfuse.all_gather(x, 0, 2), x)
    with pytest.raises(vkfuse.Error, match="4 is not a multiple of 3"):
        run(lambda x: vkfuse.reduce_scatter(x, 0, 3), x)
    with pytest.raises(ValueError, match="no way to join 'mean'"):
        run(lambda x: vkfuse.all_reduce(x, 2, "mean"), x)

"""Gradients, against differences of NumPy."""

import numpy as np
import pytest

import vkfuse


def test_of_a_network(rng):
    params = {
        "w": rng.standard_normal((4, 6)).astype(np.float32),
        "layers": [rng.standard_normal(6).astype(np.float32), rng.standard_normal((6, 3)).astype(np.float32)],
    }
    x = rng.standard_normal((5, 4)).astype(np.float32)
    labels = rng.integers(0, 3, 5).astype(np.int32)

    def loss_of(p, x, labels):
        h = vkfuse.silu(x @ p["w"] + p["layers"][0])
        return vkfuse.cross_entropy(h @ p["layers"][1], labels).mean()

    def wanted(p):
        p = {"w": p["w"].astype(np.float64), "layers": [one.astype(np.float64) for one in p["layers"]]}
        h = x @ p["w"] + p["layers"][0]
        h = h / (1 + np.exp(-h))
        logits = h @ p["layers"][1]
        return np.mean(np.log(np.exp(logits).sum(-1)) - logits[np.arange(5), labels])

    loss, slopes = vkfuse.jit(vkfuse.value_and_grad(loss_of))(params, x, labels)
    np.testing.assert_allclose(loss, wanted(params), rtol=1e-5)
    alone = vkfuse.jit(vkfuse.grad(loss_of))(params, x, labels)
    np.testing.assert_array_equal(alone["w"], slopes["w"])
    for array, slope in zip([params["w"], *params["layers"]], [slopes["w"], *slopes["layers"]]):
        assert slope.shape == array.shape and slope.dtype == array.dtype
        for at in np.ndindex(array.shape):
            kept, step = array[at], np.float32(1 / 256)
            ends = []
            for sign in (1, -1):
                array[at] = kept + sign * step
                ends.append((wanted(params), float(array[at])))
            array[at] = kept
            difference = (ends[0][0] - ends[1][0]) / (ends[0][1] - ends[1][1])
            np.testing.assert_allclose(slope[at], difference, atol=2e-4)


def test_second_order_cotangents_and_several(rng):
    x = rng.uniform(1, 2, 4).astype(np.float32)

    @vkfuse.jit
    def f(x, g):
        cubes = x * x * x
        first = vkfuse.gradients(cubes, x)
        return first, vkfuse.gradients(first, x), vkfuse.gradients([cubes, x], [x], [g, g])[0]

    first, second, both = f(x, np.arange(4, dtype=np.float32))
    np.testing.assert_allclose(first, 3 * x**2, rtol=1e-5)
    np.testing.assert_allclose(second, 6 * x, rtol=1e-5)
    np.testing.assert_allclose(both, np.arange(4) * (3 * x**2 + 1), rtol=1e-5)


def test_aux_and_argnums(rng):
    a, b = (rng.standard_normal(3).astype(np.float32) for _ in range(2))
    f = vkfuse.grad(lambda a, b: ((a * b).sum(), a + b), argnums=(0, 1), has_aux=True)
    (of_a, of_b), rest = vkfuse.jit(f)(a, b)
    np.testing.assert_array_equal(of_a, b)
    np.testing.assert_array_equal(of_b, a)
    np.testing.assert_array_equal(rest, a + b)


def test_stopped_and_straight_through():
    x = np.array([0.4, 1.6], np.float32)

    @vkfuse.jit
    def f(x):
        stopped = vkfuse.gradients(x * vkfuse.stop_gradient(x), x)
        return stopped, vkfuse.gradients(vkfuse.straight_through(vkfuse.round(x), x) * 2, x)

    stopped, through = f(x)
    np.testing.assert_array_equal(stopped, x)
    np.testing.assert_array_equal(through, [2, 2])


def test_of_a_stream():
    s = vkfuse.Stream()
    x = s.array(np.array([1, 2, 3], np.float32))
    slope = vkfuse.gradients((x * x).sum(), x)
    np.testing.assert_array_equal(s.read(slope), [2, 4, 6])


def test_what_is_refused():
    x = vkfuse.input("x", "float32", [2])
    n = vkfuse.input("n", "int32", [2])
    with pytest.raises(vkfuse.InvalidArgument, match="'gradients' takes floats, but 'wrt' 0 is i32"):
        vkfuse.gradients(x, n)
    with pytest.raises(vkfuse.Unsupported, match="'bitcast' of f16.* has no gradient"):
        vkfuse.gradients(x.astype("float16").bitcast("bfloat16"), x)
    with pytest.raises(vkfuse.InvalidArgument, match="a cotangent for each of 1 outputs, but 2 are given"):
        vkfuse.gradients(x, x, [x, x])
    with pytest.raises(TypeError, match="with respect to tensors"):
        vkfuse.gradients(x, np.ones(2, np.float32))
    with pytest.raises(TypeError, match="returns a scalar"):
        vkfuse.grad(lambda a: a * 2)(x)
    with pytest.raises(TypeError, match="takes a function"):
        vkfuse.grad(3)

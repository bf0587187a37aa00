"""Optimisers, against NumPy in double precision."""

import numpy as np
import pytest

import vkfuse
from vkfuse import optimizers


def nested(rng, scale=1.0):
    draw = lambda *shape: (scale * rng.standard_normal(shape)).astype(np.float32)  # noqa: E731
    return {"w": draw(3, 5), "layers": [draw(5), (draw(2, 2, 2), draw())]}


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for one in tree.values() for leaf in leaves(one)]
    if isinstance(tree, (list, tuple)):
        return [leaf for one in tree for leaf in leaves(one)]
    return [np.asarray(tree)]


def sgd(p, g, s, rate, step, momentum=0.0, nesterov=False, weight_decay=0.0):
    g = g + weight_decay * p
    if momentum == 0:
        return p - rate * g, s
    v = momentum * s[0] + g
    return p - rate * (g + momentum * v if nesterov else v), [v]


def adamw(p, g, s, rate, step, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01):
    m, v = beta1 * s[0] + (1 - beta1) * g, beta2 * s[1] + (1 - beta2) * g * g
    ahead = (m / (1 - beta1**step)) / (np.sqrt(v / (1 - beta2**step)) + epsilon)
    return p - rate * (ahead + weight_decay * p), [m, v]


def lion(p, g, s, rate, step, beta1=0.9, beta2=0.99, weight_decay=0.0):
    ahead = np.sign(beta1 * s[0] + (1 - beta1) * g)
    return p - rate * (ahead + weight_decay * p), [beta2 * s[0] + (1 - beta2) * g]


CASES = [
    (optimizers.SGD(), sgd, {}),
    (optimizers.SGD(0.9, weight_decay=0.1), sgd, {"momentum": 0.9, "weight_decay": 0.1}),
    (optimizers.SGD(0.9, nesterov=True), sgd, {"momentum": 0.9, "nesterov": True}),
    (optimizers.AdamW(weight_decay=0.1), adamw, {"weight_decay": 0.1}),
    (optimizers.Adam(beta1=0.8), adamw, {"beta1": 0.8, "weight_decay": 0.0}),
    (optimizers.Lion(weight_decay=0.2), lion, {"weight_decay": 0.2}),
]


@pytest.mark.parametrize("optimizer, numpy_step, options", CASES)
def test_steps(rng, optimizer, numpy_step, options):
    params = nested(rng)
    state = optimizer.init(params)
    wanted = [leaf.astype(np.float64) for leaf in leaves(params)]
    states = [[np.zeros(leaf.shape) for _ in range(optimizer._state_count())] for leaf in wanted]
    step = vkfuse.jit(optimizer.step)
    for count, rate in enumerate((0.01, 0.02, 0.005), 1):
        slopes = nested(rng)
        params, state = step(params, slopes, state, np.float32(rate))
        for i, slope in enumerate(leaves(slopes)):
            wanted[i], states[i] = numpy_step(wanted[i], slope.astype(np.float64), states[i], rate, count, **options)
        assert state["step"] == count
        for made, leaf in zip(leaves(params), wanted):
            assert made.shape == leaf.shape
            np.testing.assert_allclose(made, leaf, rtol=2e-5, atol=2e-6)
    assert params.keys() == {"w", "layers"} and isinstance(params["layers"][1], tuple)
    assert step.cached == 1  # a rate is no number of the program


def test_all_states_stay_on_the_device(rng):
    params = {name: vkfuse.array(one) for name, one in {"a": np.ones((4, 4), np.float32)}.items()}
    optimizer = optimizers.AdamW()
    step = vkfuse.jit(optimizer.step)
    after, state = step(params, params, optimizer.init(params), np.float32(0.1))
    assert isinstance(after["a"], vkfuse.Array) and isinstance(state["states"]["a"][0], vkfuse.Array)


def test_clipping(rng):
    slopes = nested(rng, 10)
    norm = np.sqrt(sum((leaf.astype(np.float64) ** 2).sum() for leaf in leaves(slopes)))
    for most in (0.5, 2 * norm):
        clipped, found = vkfuse.jit(lambda g, most=most: optimizers.clip_by_global_norm(g, most))(slopes)
        np.testing.assert_allclose(found, norm, rtol=1e-5)
        for made, leaf in zip(leaves(clipped), leaves(slopes)):
            np.testing.assert_allclose(made, leaf * min(1, most / norm), rtol=1e-5)


def test_scaled_losses():
    finite = vkfuse.jit(optimizers.all_finite)
    assert finite([np.ones(3, np.float16), np.zeros(2, np.float32)])
    assert not finite([np.ones(3, np.float16), np.float32([0, np.inf])])
    following = vkfuse.jit(lambda s, n, f: optimizers.next_loss_scale(s, n, f, interval=2))
    scale, good = np.float32(8), np.int32(0)
    seen = []
    for is_finite in (True, True, False, True):
        scale, good = following(scale, good, np.bool_(is_finite))
        seen.append((float(scale), int(good)))
    assert seen == [(8, 1), (16, 0), (8, 0), (8, 1)]


def test_moving_average(rng):
    mean, value = nested(rng), nested(rng)
    made = vkfuse.jit(lambda m, v: optimizers.moving_average(m, v, 0.75))(mean, value)
    for got, m, v in zip(leaves(made), leaves(mean), leaves(value)):
        np.testing.assert_allclose(got, 0.75 * m + 0.25 * v, rtol=1e-6, atol=1e-7)


def test_what_does_not_go_together_is_said(rng):
    optimizer = optimizers.AdamW()
    params = nested(rng)
    with pytest.raises(TypeError, match="gradients are nested in another way than the parameters"):
        optimizer.step(params, {"w": params["w"]}, optimizer.init(params), 0.1)
    with pytest.raises(TypeError, match=r"state has 4 arrays, and AdamW has 2 for each of 4 parameters: init\(\)"):
        optimizer.step(params, params, optimizers.Lion().init(params), 0.1)
    with pytest.raises(TypeError, match="parameters have no array in them"):
        optimizer.init({})
    with pytest.raises(vkfuse.InvalidArgument, match=r"f32\[5\]"):
        vkfuse.jit(optimizer.step)([params["w"]], [params["layers"][0]], optimizer.init([params["w"]]), 0.1)

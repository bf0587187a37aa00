"""Generation: the example, beside NumPy."""

import importlib.util
import pathlib

import numpy as np
import pytest

import vkfuse

PATH = pathlib.Path(__file__).parents[2] / "examples/python/generate.py"


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SMALL = ["--width", "64", "--inner", "96", "--vocabulary", "128", "--capacity", "64", "--prompt", "13",
         "--tokens", "24", "--chunk", "8"]


def logits_of(o, weights, tables, tokens):
    """Of the last token, all computed anew in double precision."""
    w = {name: value.astype(np.float64) for name, value in (weights | tables).items()}
    norm = lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    count, half = len(tokens), o.head // 2

    def turned(x):
        c, s = (w[name][:count, None] for name in ("cosine", "sine"))
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * c - b * s, a * s + b * c], -1)

    x = w["embedding"][tokens]
    for i in range(o.layers):
        y = norm(x)
        q, k, v = ((y @ w[f"{i}.{name}"]).reshape(count, -1, o.head) for name in ("query", "key", "value"))
        k, v = (np.repeat(each, o.heads // o.key_heads, 1) for each in (turned(k), v))
        scores = np.einsum("qhd,khd->hqk", turned(q), k) / np.sqrt(o.head)
        scores = np.where(np.tril(np.ones((count, count), bool)), scores, -np.inf)
        raised = np.exp(scores - scores.max(-1, keepdims=True))
        seen = np.einsum("hqk,khd->qhd", raised / raised.sum(-1, keepdims=True), v).reshape(count, -1)
        x = x + seen @ w[f"{i}.output"]
        y = norm(x)
        gate = y @ w[f"{i}.gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w[f"{i}.up"])) @ w[f"{i}.down"]
    return norm(x[-1]) @ w["logits"]


def test_tokens_are_those_of_numpy(generate):
    o = generate.options(SMALL)
    weights, tables = generate.weights_of(o), generate.tables_of(o)
    tokens = generate.main(SMALL)
    said = list(np.random.default_rng(o.seed + 1).integers(0, o.vocabulary, o.prompt))
    decided = 0
    for token in tokens:
        logits = logits_of(o, weights, tables, said)
        second, best = np.sort(logits)[-2:]
        if best - second > 1e-3:
            assert token == int(np.argmax(logits)), f"after {len(said)} tokens"
            decided += 1
        said.append(token)
    assert decided >= 20
    assert generate.main(SMALL) == tokens


def test_samples_repeat_and_depend_on_the_seed(generate):
    how = SMALL + ["--temperature", "1.5", "--top-k", "40", "--top-p", "0.95"]
    tokens = generate.main(how)
    assert generate.main(how) == tokens and all(0 <= token < 128 for token in tokens)
    assert len(set(tokens)) > 4


def test_a_prompt_longer_than_the_cache_is_refused(generate):
    with pytest.raises(SystemExit, match="The prompt has 60 tokens and 24 are to follow, but the cache holds 64"):
        generate.main(SMALL + ["--prompt", "60"])


def test_rows_are_written_in_place():
    g = vkfuse.Graph()
    base = g.input("base", "float32", [2, 16, 4])
    g.output("y", base.update_rows(g.input("at", "int32", [2]), g.input("rows", "float32", [2, 3, 4]), 1))
    program = g.compile()
    want = np.arange(128, dtype=np.float32).reshape(2, 16, 4)
    cache, rows = vkfuse.array(want), -np.ones((2, 3, 4), np.float32)
    want = want.copy()
    for at in ([0, 5], [14, -2], [16, 9]):
        with program.submit({"base": cache, "at": vkfuse.array(np.array(at, np.int32)), "rows": vkfuse.array(rows)},
                            {"y": cache}):
            pass
        for b, first in enumerate(at):
            first = max(first, 0)
            want[b, first:first + 3] = -1
        np.testing.assert_array_equal(cache.numpy(), want)

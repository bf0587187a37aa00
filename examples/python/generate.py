"""Generates tokens with a model in the manner of Llama, whose weights are random numbers of a seed.

    pip install vkfuse-*.whl
    python generate.py --layers 2 --width 256 --prompt 40 --tokens 32

Caches of keys and values stay in their memory, their length is data, and one program serves every token: the host reads
a token of each step and does nothing else. docs/generation.md says what happens.
"""

import argparse
import time

import numpy as np
import vkfuse


def options(arguments=None):
    parser = argparse.ArgumentParser(description="Generates tokens with a model of random weights.")
    for name, value in {"layers": 2, "width": 256, "heads": 4, "key-heads": 2, "inner": 704, "vocabulary": 1024,
                        "capacity": 256, "prompt": 40, "tokens": 32, "chunk": 16, "seed": 1, "top-k": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in {"temperature": 0.0, "top-p": 1.0, "min-p": 0.0}.items():
        parser.add_argument(f"--{name}", type=float, default=value)
    o = parser.parse_args(arguments)
    o.head = o.width // o.heads
    return o


def weights_of(o):
    """Random matrices by name."""
    shapes = {"embedding": (o.vocabulary, o.width), "logits": (o.width, o.vocabulary)}
    for i in range(o.layers):
        shapes |= {f"{i}.query": (o.width, o.width), f"{i}.key": (o.width, o.key_heads * o.head),
                   f"{i}.value": (o.width, o.key_heads * o.head), f"{i}.output": (o.width, o.width),
                   f"{i}.gate": (o.width, o.inner), f"{i}.up": (o.width, o.inner), f"{i}.down": (o.inner, o.width)}
    random = np.random.default_rng(o.seed)
    return {name: (random.standard_normal(shape) * (1 if name == "embedding" else 2 / np.sqrt(shape[0])))
            .astype(np.float32) for name, shape in shapes.items()}


def tables_of(o):
    """Cosines and sines of the rotary embedding."""
    angles = np.outer(np.arange(o.capacity), 10000.0 ** (-np.arange(0, o.head, 2) / o.head))
    return {"cosine": np.cos(angles).astype(np.float32), "sine": np.sin(angles).astype(np.float32)}


def caches_of(o):
    return [f"{i}.{name}" for i in range(o.layers) for name in ("keys", "values")]


def step(o, weights, count):
    """The program of `count` tokens from the position `start` on, the last of which is number `last`."""
    g = vkfuse.Graph("step")
    w = {name: g.input(name, "float32", list(value.shape)) for name, value in weights.items()}
    held = {name: g.input(name, "float32", [1, o.key_heads, o.capacity, o.head]) for name in caches_of(o)}
    tokens, start, last = (g.input(name, "int32", [size]) for name, size in
                           (("tokens", count), ("start", 1), ("last", 1)))
    position = start + vkfuse.arange(count, dtype="int32")
    cosine, sine = (w[name].gather(position, 0).reshape(count, 1, o.head // 2) for name in ("cosine", "sine"))
    x = w["embedding"].gather(tokens, 0)
    for i in range(o.layers):
        y = vkfuse.rms_norm(x)

        def heads(name, many, turns=True):
            each = (y @ w[f"{i}.{name}"]).reshape(count, many, o.head)
            each = vkfuse.rotary(each, cosine, sine) if turns else each
            return each.permute(1, 0, 2).reshape(1, many, count, o.head)

        keys = held[f"{i}.keys"].update_rows(start.reshape(), heads("key", o.key_heads), 2)
        values = held[f"{i}.values"].update_rows(start.reshape(), heads("value", o.key_heads, False), 2)
        g.output(f"{i}.keys'", keys)
        g.output(f"{i}.values'", values)
        seen = vkfuse.cached_attention(heads("query", o.heads), keys, values, start)
        x = x + seen.permute(0, 2, 1, 3).reshape(count, o.width) @ w[f"{i}.output"]
        y = vkfuse.rms_norm(x)
        x = x + (vkfuse.silu(y @ w[f"{i}.gate"]) * (y @ w[f"{i}.up"])) @ w[f"{i}.down"]
    logits = vkfuse.rms_norm(x.gather(last, 0)) @ w["logits"]
    if o.temperature > 0:
        token = vkfuse.sample(logits, start + last + o.seed * 65536, temperature=o.temperature, top_k=o.top_k,
                              top_p=o.top_p, min_p=o.min_p)
    else:
        token = vkfuse.greedy(logits)
    g.output("token", token)
    g.output("start'", start + last + 1)
    return g.compile()


def check(o):
    if o.prompt + o.tokens > o.capacity:
        raise SystemExit(f"The prompt has {o.prompt} tokens and {o.tokens} are to follow, but the cache holds "
                         f"{o.capacity} positions.")


class Generator:
    """A model on the device: memory, and programs for a chunk of a prompt and for a token."""

    def __init__(self, o):
        check(o)
        self.o = o
        weights = weights_of(o) | tables_of(o)
        self.chunk, self.one = step(o, weights, o.chunk), step(o, weights, 1)
        self.inputs = {name: vkfuse.array(value) for name, value in weights.items()}
        shape = (1, o.key_heads, o.capacity, o.head)
        caches = {name: vkfuse.empty(shape) for name in caches_of(o)}
        self.inputs |= caches
        self.outputs = {f"{name}'": cache for name, cache in caches.items()}
        # A token and its position take turns, so that no step writes what it reads.
        self.turns = [[vkfuse.array(np.zeros(1, np.int32)) for _ in range(2)] for _ in range(2)]
        self.zero = vkfuse.array(np.zeros(1, np.int32))

    def run(self, program, tokens, start, last, to):
        inputs = self.inputs | {"tokens": tokens, "start": start, "last": last}
        with program.submit(inputs, self.outputs | {"token": to[0], "start'": to[1]}):
            pass

    def read(self, prompt):
        for first in range(0, len(prompt), self.o.chunk):
            part = np.zeros(self.o.chunk, np.int32)
            count = min(self.o.chunk, len(prompt) - first)
            part[:count] = prompt[first:first + count]
            self.run(self.chunk, *(vkfuse.array(np.array(value, np.int32)) for value in (part, [first], [count - 1])),
                     self.turns[0])

    def tokens(self, count):
        for i in range(count):
            here, there = self.turns[i % 2], self.turns[1 - i % 2]
            yield int(here[0].numpy()[0])
            if i + 1 < count:
                self.run(self.one, here[0], here[1], self.zero, there)


def main(arguments=None):
    o = options(arguments)
    model = Generator(o)
    prompt = np.random.default_rng(o.seed + 1).integers(0, o.vocabulary, o.prompt)
    began = time.perf_counter()
    model.read(prompt)
    read = time.perf_counter()
    tokens = list(model.tokens(o.tokens))
    ended = time.perf_counter()
    print("tokens:", *tokens)
    print(f"a step: {model.one.kernel_count} kernels")
    print(f"prompt: {o.prompt / (read - began):.1f} tokens/s")
    print(f"generation: {(o.tokens - 1) / (ended - read):.1f} tokens/s")
    print(f"memory: {sum(array.nbytes for array in model.inputs.values()) / 1e6:.1f} MB of weights and caches")
    return tokens


if __name__ == "__main__":
    main()

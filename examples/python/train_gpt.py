"""Trains a small transformer to write the next character of a text that comes with Python: its language reference.

    python3 examples/python/train_gpt.py [--device llvmpipe] [--steps 300]

Forward pass, backward pass, clipping and AdamW are one program, compiled once. Parameters and the optimiser's states
stay on the device; a step takes 32 pieces of the text and a rate, and gives the loss. It fails where the loss on a
tenth of the text that it has not seen is above 2.1 (an even guess is 4.6), or fewer than 42 % of characters are right.
"""

import argparse
import pydoc_data.topics
import sys
import time

import numpy as np

import vkfuse

LENGTH, WIDTH, HEADS, LAYERS, BATCH = 32, 64, 4, 2, 32
BLOCK = 4096  # characters of the text that are seen or unseen together
WORST_LOSS, WORST_ACCURACY = 2.1, 0.42


def read_text():
    """The text as numbers of characters, those that are rare as one, and how many there are."""
    text = "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    characters, counts = np.unique(np.array(list(text)), return_counts=True)
    known = {character: i + 1 for i, character in enumerate(characters[counts >= 50])}
    return np.array([known.get(character, 0) for character in text], np.int32), len(known) + 1


def first_parameters(rng, characters):
    def weights(*shape, scale=None):
        return ((scale or shape[0] ** -0.5) * rng.standard_normal(shape)).astype(np.float32)

    def layer():
        return {
            "norm1": np.ones(WIDTH, np.float32),
            "qkv": weights(WIDTH, 3 * WIDTH),
            "out": weights(WIDTH, WIDTH, scale=(2 * LAYERS * WIDTH) ** -0.5),
            "norm2": np.ones(WIDTH, np.float32),
            "up": weights(WIDTH, 4 * WIDTH),
            "down": weights(4 * WIDTH, WIDTH, scale=(8 * LAYERS * WIDTH) ** -0.5),
        }

    return {
        "characters": weights(characters, WIDTH, scale=0.1),
        "positions": weights(LENGTH, WIDTH, scale=0.1),
        "layers": [layer() for _ in range(LAYERS)],
        "norm": np.ones(WIDTH, np.float32),
        "head": weights(WIDTH, characters),
    }


def logits_of(params, tokens):
    """[pieces * LENGTH, characters] for tokens [pieces, LENGTH]."""
    pieces, size = tokens.shape[0], WIDTH // HEADS
    x = vkfuse.embedding(params["characters"], tokens) + params["positions"]
    for layer in params["layers"]:
        h = vkfuse.rms_norm(x, layer["norm1"]) @ layer["qkv"]
        q, k, v = (
            h[:, :, i * WIDTH : (i + 1) * WIDTH].reshape(pieces, LENGTH, HEADS, size).transpose(0, 2, 1, 3)
            for i in range(3)
        )
        attended = vkfuse.attention(q, k, v, causal=True)
        x = x + attended.transpose(0, 2, 1, 3).reshape(pieces, LENGTH, WIDTH) @ layer["out"]
        x = x + vkfuse.gelu(vkfuse.rms_norm(x, layer["norm2"]) @ layer["up"]) @ layer["down"]
    return (vkfuse.rms_norm(x, params["norm"]) @ params["head"]).reshape(pieces * LENGTH, -1)


def loss_of(params, tokens, following):
    return vkfuse.cross_entropy(logits_of(params, tokens), following.reshape(-1)).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", help="a part of its name; default: the best one")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    device = vkfuse.Device(options.device) if options.device else vkfuse.default_device()

    text, characters = read_text()
    blocks = [text[at : at + BLOCK] for at in range(0, len(text), BLOCK)]
    unseen = np.concatenate(blocks[::10])
    seen = np.concatenate([block for i, block in enumerate(blocks) if i % 10 != 0])
    rng = np.random.default_rng(1)

    def pieces_of(part):
        starts = rng.integers(0, len(part) - LENGTH - 1, BATCH)
        pieces = np.stack([part[start : start + LENGTH + 1] for start in starts])
        return pieces[:, :-1], np.ascontiguousarray(pieces[:, 1:])

    optimizer = vkfuse.optimizers.AdamW(beta2=0.99, weight_decay=0.1)

    def step(params, state, tokens, following, rate):
        loss, slopes = vkfuse.value_and_grad(loss_of)(params, tokens, following)
        slopes, _ = vkfuse.optimizers.clip_by_global_norm(slopes, 1.0)
        params, state = optimizer.step(params, slopes, state, rate)
        return loss, params, state

    def judge(params, tokens, following):
        logits = logits_of(params, tokens)
        right = vkfuse.argmax(logits, axis=-1).astype("int32") == following.reshape(-1)
        return vkfuse.cross_entropy(logits, following.reshape(-1)).mean(), right.astype("float32").mean()

    step, judge = vkfuse.jit(step, device=device, donate=(0, 1)), vkfuse.jit(judge, device=device)
    params = on_device(device, first_parameters(rng, characters))
    state = on_device(device, optimizer.init(params))
    begin = time.perf_counter()
    for i in range(options.steps):
        rate = np.float32(1e-2 * min(1, (i + 1) / 20) * (1 - 0.9 * i / options.steps))
        loss, params, state = step(params, state, *pieces_of(seen), rate)
        if i % 50 == 0 or i + 1 == options.steps:
            print(f"step {i}: loss {float(loss.numpy()):.3f}, {time.perf_counter() - begin:.1f} s", flush=True)
    results = [judge(params, *pieces_of(unseen)) for _ in range(8)]
    loss, accuracy = (float(np.mean([one[i].numpy() for one in results])) for i in range(2))
    print(f"unseen text: loss {loss:.3f}, {100 * accuracy:.0f} % of characters right")
    return 0 if loss <= WORST_LOSS and accuracy >= WORST_ACCURACY else 1


def on_device(device, nested):
    """The same with arrays on the device."""
    if isinstance(nested, dict):
        return {name: on_device(device, one) for name, one in nested.items()}
    if isinstance(nested, (list, tuple)):
        return type(nested)(on_device(device, one) for one in nested)
    return device.array(nested)


if __name__ == "__main__":
    sys.exit(main())

"""What a training step of GPT-2 takes, in ms: forward, backward and AdamW, products in float16, parameters in float32.

    python train_gpt2.py ours|torch|eager [--layers 12] [--width 768] [--batch 8] [--length 1024] [--words 50257]
        [--without PASS]... [--budget BYTES]

Prints the loss of the first and the last step, the median of the steps, and for ours the sum of the kernels and those
that take longest. The defaults are GPT-2 of 124 million parameters. `torch` is torch.compile on a CUDA device.
"""

import argparse
import time

import numpy as np

SCALE = 1024.0  # of the loss: gradients of float16 keep their small values


def parameters(sizes):
    rng = np.random.default_rng(1)
    wide = sizes.width

    def weights(*shape):
        return (0.02 * rng.standard_normal(shape)).astype(np.float32)

    def norm():
        return {"weight": np.ones(wide, np.float32), "bias": np.zeros(wide, np.float32)}

    def linear(rows, columns):
        return {"weight": weights(rows, columns), "bias": np.zeros(columns, np.float32)}

    def layer():
        return {
            "norm1": norm(),
            "qkv": linear(wide, 3 * wide),
            "out": linear(wide, wide),
            "norm2": norm(),
            "up": linear(wide, 4 * wide),
            "down": linear(4 * wide, wide),
        }

    return {
        "words": weights(sizes.words, wide),
        "positions": weights(sizes.length, wide),
        "layers": [layer() for _ in range(sizes.layers)],
        "norm": norm(),
    }


def mapped(nested, change):
    if isinstance(nested, dict):
        return {name: mapped(one, change) for name, one in nested.items()}
    if isinstance(nested, (list, tuple)):
        return type(nested)(mapped(one, change) for one in nested)
    return change(nested)


def report(name, times, losses):
    print(f"{name}: {1e3 * np.median(times[len(times) // 2 :]):.2f} ms a step, losses {losses[0]:.4f} {losses[-1]:.4f}")


def ours(sizes, batches):
    import vkfuse

    heads = sizes.width // 64

    def loss_of(params, tokens):
        half = mapped(params, lambda one: one.astype("float16"))
        inputs, following = tokens[:, :-1], tokens[:, 1:]

        def linear(x, of):
            return x @ of["weight"] + of["bias"]

        def normed(x, of):
            return vkfuse.layer_norm(x, of["weight"], of["bias"])

        x = vkfuse.embedding(half["words"], inputs) + half["positions"]
        for layer in half["layers"]:
            h = linear(normed(x, layer["norm1"]), layer["qkv"])
            h = h.reshape(sizes.batch, sizes.length, 3, heads, 64).transpose(2, 0, 3, 1, 4)
            q, k, v = (h[i : i + 1].reshape(sizes.batch, heads, sizes.length, 64) for i in range(3))
            attended = vkfuse.attention(q, k, v, causal=True)
            attended = attended.transpose(0, 2, 1, 3).reshape(sizes.batch, sizes.length, sizes.width)
            x = x + linear(attended, layer["out"])
            x = x + linear(vkfuse.gelu(linear(normed(x, layer["norm2"]), layer["up"])), layer["down"])
        logits = normed(x, half["norm"]).reshape(-1, sizes.width) @ half["words"].transpose(1, 0)
        return vkfuse.cross_entropy(logits.astype("float32"), following.reshape(-1)).mean() * SCALE

    optimizer = vkfuse.optimizers.AdamW()

    options = {"memory_budget": sizes.budget} if sizes.budget else {}

    @vkfuse.jit(donate=(0, 1), without=sizes.without, **options)
    def step(params, state, tokens):
        loss, slopes = vkfuse.value_and_grad(loss_of)(params, tokens)
        slopes = mapped(slopes, lambda one: one * (1 / SCALE))
        params, state = optimizer.step(params, slopes, state, 3e-4)
        return loss * (1 / SCALE), params, state

    device = vkfuse.default_device()
    state = mapped(optimizer.init(parameters(sizes)), device.array)
    params = mapped(parameters(sizes), device.array)
    begin = time.perf_counter()
    program = step.compile(params, state, batches[0])
    took, arena = time.perf_counter() - begin, program.memory()["arena"]
    print(f"compiled in {took:.1f} s: {program.kernel_count} kernels, values {arena / 1e6:.0f} MB", flush=True)
    times, losses = [], []
    for tokens in batches:
        begin = time.perf_counter()
        loss, params, state = step(params, state, tokens)
        losses.append(float(loss.numpy()))
        times.append(time.perf_counter() - begin)
    report("ours", times, losses)
    steps = step.profile(params, state, batches[0])
    print(f"kernels: {sum(one.microseconds for one in steps) / 1e3:.2f} ms")
    for one in sorted(steps, key=lambda one: -one.microseconds)[: sizes.kernels]:
        print(f"  {one.microseconds:9.1f} us {one.kernel}")


def torchs(sizes, batches, compiled):
    import torch
    import torch.nn.functional as F

    heads = sizes.width // 64
    params = mapped(parameters(sizes), lambda one: torch.tensor(one, device="cuda", requires_grad=True))
    leaves = []
    mapped(params, leaves.append)
    optimizer = torch.optim.AdamW(leaves, lr=3e-4, fused=True)

    def loss_of(tokens):
        half = mapped(params, lambda one: one.half())
        inputs, following = tokens[:, :-1], tokens[:, 1:]

        def linear(x, of):
            return torch.addmm(of["bias"], x.reshape(-1, x.shape[-1]), of["weight"]).reshape(*x.shape[:-1], -1)

        def normed(x, of):
            return F.layer_norm(x, (sizes.width,), of["weight"], of["bias"])

        x = F.embedding(inputs, half["words"]) + half["positions"]
        for layer in half["layers"]:
            h = linear(normed(x, layer["norm1"]), layer["qkv"])
            q, k, v = h.reshape(sizes.batch, sizes.length, 3, heads, 64).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + linear(attended.transpose(1, 2).reshape(sizes.batch, sizes.length, sizes.width), layer["out"])
            x = x + linear(F.gelu(linear(normed(x, layer["norm2"]), layer["up"])), layer["down"])
        logits = normed(x, half["norm"]).reshape(-1, sizes.width) @ half["words"].T
        return F.cross_entropy(logits.float(), following.reshape(-1)) * SCALE

    if compiled:
        loss_of = torch.compile(loss_of)
    times, losses = [], []
    for tokens in batches:
        tokens = torch.tensor(tokens, dtype=torch.int64, device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = loss_of(tokens)
        loss.backward()
        torch._foreach_mul_([one.grad for one in leaves], 1 / SCALE)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item() / SCALE)
        times.append(time.perf_counter() - begin)
    report("torch.compile" if compiled else "eager", times, losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("which", choices=["ours", "torch", "eager"])
    for name, value in {"layers": 12, "width": 768, "batch": 8, "length": 1024, "words": 50257}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--kernels", type=int, default=10, help="how many of the longest are printed")
    parser.add_argument("--budget", type=int, default=0, help="bytes of intermediate values that ours takes at most")
    parser.add_argument("--without", action="append", default=[], help="a pass of the planner that ours does without")
    sizes = parser.parse_args()
    rng = np.random.default_rng(2)
    batches = [rng.integers(0, sizes.words, (sizes.batch, sizes.length + 1)).astype(np.int32) for _ in range(4)]
    batches = [batches[i % 4] for i in range(sizes.steps)]  # a loss that falls: four batches are learnt by heart
    if sizes.which == "ours":
        ours(sizes, batches)
    else:
        torchs(sizes, batches, sizes.which == "torch")


if __name__ == "__main__":
    main()

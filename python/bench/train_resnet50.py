"""What a training step of ResNet-50 takes, in ms: forward, backward and SGD, products in f16, parameters in f32.

    python train_resnet50.py ours|torch|channels-last|eager [--batch 64] [--size 224] [--width 64] [--blocks 3,4,6,3]
        [--without PASS]... [--budget BYTES]

Prints the loss of the first and the last step, the median of the steps, and for ours the sum of the kernels and those
that take longest. Images are on the device. `torch` is torch.compile, `channels-last` the same with PyTorch's faster
layout. Batch norms use the batch's statistics, which no running mean follows.
"""

import argparse
import time

import numpy as np
from train_gpt2 import SCALE, mapped, report


def parameters(sizes):
    rng = np.random.default_rng(1)

    def conv(outs, ins, kernel):
        scale = np.sqrt(2 / (ins * kernel * kernel))
        return (scale * rng.standard_normal((outs, ins, kernel, kernel))).astype(np.float32)

    def norm(channels):
        return {"scale": np.ones(channels, np.float32), "bias": np.zeros(channels, np.float32)}

    ins, stages = sizes.width, []
    for stage, blocks in enumerate(sizes.blocks):
        inner, outs = sizes.width << stage, 4 * sizes.width << stage
        stages.append([])
        for block in range(blocks):
            one = {"conv1": conv(inner, ins, 1), "norm1": norm(inner)}
            one |= {"conv2": conv(inner, inner, 3), "norm2": norm(inner)}
            one |= {"conv3": conv(outs, inner, 1), "norm3": norm(outs)}
            if block == 0:
                one |= {"conv0": conv(outs, ins, 1), "norm0": norm(outs)}
            stages[-1].append(one)
            ins = outs
    last = {"weight": (0.01 * rng.standard_normal((ins, 1000))).astype(np.float32), "bias": np.zeros(1000, np.float32)}
    return {"conv": conv(sizes.width, 3, 7), "norm": norm(sizes.width), "stages": stages, "last": last}


def logits_of(params, x, lib):
    """The network in terms of `lib`: conv, norm, relu, max_pool, mean and linear."""
    x = lib.max_pool(lib.relu(lib.norm(lib.conv(x, params["conv"], 2, 3), params["norm"])))
    for stage, blocks in enumerate(params["stages"]):
        for block, one in enumerate(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = lib.relu(lib.norm(lib.conv(x, one["conv1"], 1, 0), one["norm1"]))
            y = lib.relu(lib.norm(lib.conv(y, one["conv2"], stride, 1), one["norm2"]))
            y = lib.norm(lib.conv(y, one["conv3"], 1, 0), one["norm3"])
            if "conv0" in one:
                x = lib.norm(lib.conv(x, one["conv0"], stride, 0), one["norm0"])
            x = lib.relu(x + y)
    return lib.linear(lib.mean(x), params["last"])


def ours(sizes, images, labels):
    import vkfuse

    class Lib:
        @staticmethod
        def conv(x, w, stride, padding):
            return vkfuse.conv(x, w, strides=[stride] * 2, low=[padding] * 2, high=[padding] * 2)

        @staticmethod
        def norm(x, of):
            y = vkfuse.normalize(x.astype("float32").transpose(1, 0, 2, 3).reshape(x.shape[1], -1), -1)
            y = y.reshape(x.shape[1], x.shape[0], *x.shape[2:]).transpose(1, 0, 2, 3)
            scale, bias = (of[name].astype("float32").reshape(1, -1, 1, 1) for name in ("scale", "bias"))
            return (y * scale + bias).astype("float16")

        @staticmethod
        def relu(x):
            return vkfuse.relu(x)

        @staticmethod
        def max_pool(x):
            return vkfuse.max_pool(x, sizes=(3, 3), strides=(2, 2), low=(1, 1), high=(1, 1))

        @staticmethod
        def mean(x):
            return x.mean((2, 3))

        @staticmethod
        def linear(x, of):
            return x @ of["weight"] + of["bias"]

    def loss_of(params, images, labels):
        logits = logits_of(mapped(params, lambda one: one.astype("float16")), images, Lib)
        return vkfuse.cross_entropy(logits.astype("float32"), labels).mean() * SCALE

    optimizer = vkfuse.optimizers.SGD(momentum=0.9)
    options = {"memory_budget": sizes.budget} if sizes.budget else {}

    @vkfuse.jit(donate=(0, 1), without=sizes.without, **options)
    def step(params, state, images, labels):
        loss, slopes = vkfuse.value_and_grad(loss_of)(params, images, labels)
        slopes = mapped(slopes, lambda one: one * (1 / SCALE))
        params, state = optimizer.step(params, slopes, state, 0.01)
        return loss * (1 / SCALE), params, state

    device = vkfuse.default_device()
    state = mapped(optimizer.init(parameters(sizes)), device.array)
    params = mapped(parameters(sizes), device.array)
    images, labels = device.array(images), device.array(labels)
    begin = time.perf_counter()
    program = step.compile(params, state, images, labels)
    took, arena = time.perf_counter() - begin, program.memory()["arena"]
    print(f"compiled in {took:.1f} s: {program.kernel_count} kernels, values {arena / 1e6:.0f} MB", flush=True)
    times, losses = [], []
    for _ in range(sizes.steps):
        begin = time.perf_counter()
        loss, params, state = step(params, state, images, labels)
        losses.append(float(loss.numpy()))
        times.append(time.perf_counter() - begin)
    report("ours", times, losses)
    steps = step.profile(params, state, images, labels)
    print(f"kernels: {sum(one.microseconds for one in steps) / 1e3:.2f} ms")
    for one in sorted(steps, key=lambda one: -one.microseconds)[: sizes.kernels]:
        print(f"  {one.microseconds:9.1f} us {one.kernel}")


def torchs(sizes, images, labels):
    import torch
    import torch.nn.functional as F

    class Lib:
        @staticmethod
        def conv(x, w, stride, padding):
            return F.conv2d(x, w, stride=stride, padding=padding)

        @staticmethod
        def norm(x, of):
            return F.batch_norm(x, None, None, of["scale"], of["bias"], training=True)

        @staticmethod
        def relu(x):
            return F.relu(x)

        @staticmethod
        def max_pool(x):
            return F.max_pool2d(x, 3, 2, 1)

        @staticmethod
        def mean(x):
            return x.mean((2, 3))

        @staticmethod
        def linear(x, of):
            return x @ of["weight"] + of["bias"]

    layout = torch.channels_last if sizes.which == "channels-last" else torch.contiguous_format

    def array(one):
        made = torch.tensor(one, device="cuda")
        return made.to(memory_format=layout) if made.ndim == 4 else made

    params = mapped(parameters(sizes), lambda one: array(one).requires_grad_(True))
    leaves = []
    mapped(params, leaves.append)
    optimizer = torch.optim.SGD(leaves, lr=0.01, momentum=0.9, fused=True)
    images, labels = array(images), array(labels).long()
    torch.backends.cudnn.benchmark = True

    def loss_of(images, labels):
        logits = logits_of(mapped(params, lambda one: one.half() if one.ndim > 1 else one), images, Lib)
        return F.cross_entropy(logits.float(), labels) * SCALE

    if sizes.which != "eager":
        loss_of = torch.compile(loss_of)
    times, losses = [], []
    for _ in range(sizes.steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = loss_of(images, labels)
        loss.backward()
        torch._foreach_mul_([one.grad for one in leaves], 1 / SCALE)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item() / SCALE)
        times.append(time.perf_counter() - begin)
    report(sizes.which, times, losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("which", choices=["ours", "torch", "channels-last", "eager"])
    for name, value in {"batch": 64, "size": 224, "width": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--blocks", type=lambda text: [int(one) for one in text.split(",")], default=[3, 4, 6, 3])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--kernels", type=int, default=10, help="how many of the longest are printed")
    parser.add_argument("--without", action="append", default=[], help="a pass of the planner that ours does without")
    parser.add_argument("--budget", type=int, default=0, help="bytes of intermediate values that ours takes at most")
    sizes = parser.parse_args()
    rng = np.random.default_rng(2)
    images = rng.standard_normal((sizes.batch, 3, sizes.size, sizes.size)).astype(np.float16)
    labels = rng.integers(0, 1000, sizes.batch).astype(np.int32)
    (ours if sizes.which == "ours" else torchs)(sizes, images, labels)


if __name__ == "__main__":
    main()

"""Models through torch.compile(backend="vkfuse") beside eager: graph breaks, results, gradients, and steps of training.

  usage: torch_training.py [--steps N] [NAME...]
"""

import argparse
import copy
import sys
import time

import torch
from torch_models import MODELS

import vkfuse.torch
from vkfuse.torch import _backend


def relative(made, expected):
    """The largest difference, over the largest element."""
    made, expected = made.detach().double(), expected.detach().double()
    return ((made - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item()


def made(name):
    """A model in training, and what it is called with: the same each time."""
    torch.manual_seed(3)
    model, inputs = MODELS[name]()
    return model.train(), inputs


def forward_and_backward(model, inputs, call):
    model.zero_grad(set_to_none=True)
    loss, result = call(**inputs)
    loss.backward()
    gradients = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    return loss.detach(), result.detach(), gradients


def _gradient_apart(made, expected, exact, largest):
    """The difference from eager, relative to the largest element of the gradient, or to a thousandth of that of all:
    some gradients are 0 but for rounding, as that of a bias before a norm. 0 where eager's own error is as large."""
    ours, theirs = (made.double() - exact).abs().max(), (expected.double() - exact).abs().max()
    if ours <= 2 * theirs:
        return 0.0
    return ((made - expected).abs().max() / max(expected.abs().max(), 1e-3 * largest)).item()


def compare(name):
    """What is not as it is to be, and the numbers."""
    model, inputs = made(name)
    twin, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    loss, result, gradients = forward_and_backward(model, inputs, model)
    wide = {n: x.double() if x.is_floating_point() else x for n, x in inputs.items()}
    _, _, doubles = forward_and_backward(exact, wide, exact)
    seen = []
    token = _backend.watched.set(seen)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        call = torch.compile(twin, backend=vkfuse.torch.backend)
        other_loss, other_result, other_gradients = forward_and_backward(twin, inputs, call)
    finally:
        _backend.watched.reset(token)
    reasons = [reason for graph in seen for one in graph.executables for reason in one.reasons.values()]
    breaks = dict(torch._dynamo.utils.counters["graph_break"])
    kernels = sum(step.compiled.kernel_count for graph in seen for one in graph.executables for step in one.steps
                  if hasattr(step, "compiled"))  # fmt: skip
    largest = max(x.abs().max() for x in gradients.values())
    slopes = max(_gradient_apart(other_gradients[n], g, doubles[n], largest) for n, g in gradients.items())
    buffers = max([relative(b, a) for a, b in zip(model.buffers(), twin.buffers()) if a.is_floating_point()], default=0)
    wrong = []
    if reasons or len(seen) != 2 or breaks:
        wrong.append(f"{len(seen)} graphs, in eager: {reasons}, graph breaks: {breaks}")
    numbers = {"result": relative(other_result, result), "gradients": slopes, "buffers": buffers}
    wrong += [f"{what} differ by {number:.2g}" for what, number in numbers.items() if not number <= 1e-4]
    if gradients.keys() != other_gradients.keys():
        wrong.append("parameters with a gradient differ")
    return wrong, {**numbers, "kernels": kernels}


def train(name, call_of, steps):
    """Losses of training on one batch, by AdamW."""
    model, inputs = made(name)
    call = call_of(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss, _ = call(**inputs)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_apart(name, steps):
    """The largest difference of the losses of the first ten steps, and of the last step, both relative."""
    torch._dynamo.reset()
    theirs = train(name, lambda model: model, steps)
    ours = train(name, lambda model: torch.compile(model, backend=vkfuse.torch.backend), steps)
    apart = [abs(a - b) / abs(b) for a, b in zip(ours, theirs)]
    return max(apart[:10]), apart[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=10)
    given = parser.parse_args()
    failed = False
    for name in given.names or MODELS:
        start = time.time()
        wrong, numbers = compare(name)
        first, last = losses_apart(name, given.steps)
        if not first <= 1e-3:
            wrong.append(f"losses of ten steps differ by {first:.2g}")
        if not last <= 5e-2:
            wrong.append(f"the loss after {given.steps} steps differs by {last:.2g}")
        failed = failed or bool(wrong)
        shown = ", ".join(f"{what} {number:.2g}" for what, number in numbers.items())
        print(f"{name:10} {shown}, losses {first:.2g}, {last:.2g}; {time.time() - start:.0f} s; "
              f"{'; '.join(wrong) or 'right'}", flush=True)  # fmt: skip
    sys.exit(failed)


if __name__ == "__main__":
    main()

"""PyTorch's own samples of ops (OpInfo) through torch.compile(backend="vkfuse"), compared with eager.

  usage: torch_cases.py list                                  (the denominator: python/tests/torch_ops.txt)
         torch_cases.py run [--samples N] [--part I/N] [--least SHARE] [--out FILE] [NAME...]

A row is an OpInfo whose op is in core ATen, and a dtype: float32, float16, bfloat16, int64, bool; and `gradient`, the
backward pass in float32. Its verdict: `ours` where no node of any sample is left to eager; `eager`, with the reason of
the first node that is; `wrong`; `failed`.
"""

import argparse
import collections
import itertools
import json
import logging
import pathlib
import sys
import time
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import vkfuse.torch
from vkfuse.torch import _backend

ROWS = pathlib.Path(__file__).with_name("torch_ops.txt")
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "int64": torch.int64,
          "bool": torch.bool}  # fmt: skip


def core_names():
    """Names of the ops of core ATen, without their overloads."""
    made = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if isinstance(packet, torch._ops.OpOverloadPacket):
            if any(torch.Tag.core in getattr(packet, one).tags for one in packet.overloads()):
                made.add(name)
    return made


class _Calls(TorchDispatchMode):
    """Which ops of ATen are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


def full_name(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def is_core(op, names):
    """Whether ATen's name of the op is one of core ATen's, or the one op that it calls is."""
    if op.aten_name in names or f"_{op.aten_name}" in names:
        return True
    dtype = next((one for one in DTYPES.values() if one in op.supported_dtypes("cpu")), None)
    if dtype is None:
        return False
    try:
        sample = next(iter(op.sample_inputs("cpu", dtype)))
        with _Calls() as calls:
            op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return False
    return len(calls.names) == 1 and calls.names <= names


def rows():
    """Every OpInfo of core ATen with every dtype of it."""
    names = core_names()
    made = []
    for op in op_db:
        if not is_core(op, names):
            continue
        supported = op.supported_dtypes("cpu")
        made += [f"{full_name(op)} {name}" for name, dtype in DTYPES.items() if dtype in supported]
        if op.supports_autograd and torch.float32 in supported:
            made.append(f"{full_name(op)} gradient")
    return made


def samples_of(op, kind, count):
    """Up to `count` samples, spread over all that there are."""
    dtype, needs = DTYPES.get(kind, torch.float32), kind == "gradient"
    torch.manual_seed(7)
    made = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=needs), 400))
    step = max(1, len(made) // count)
    return made[::step][:count]


def _call(op, sample, inputs):
    made = op(inputs[0], *inputs[1], **inputs[2])
    return sample.output_process_fn_grad(made) if sample.output_process_fn_grad else made


def _gradients(results, inputs):
    wanted = [x for x in tree_leaves(results) if isinstance(x, torch.Tensor) and x.requires_grad]
    leaves = [x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not wanted or not leaves:
        return []
    torch.manual_seed(11)
    seeds = [torch.randn_like(x) for x in wanted]
    return list(torch.autograd.grad(wanted, leaves, seeds, allow_unused=True))


def _copied(inputs, as_double=False):
    def one(x):
        if not isinstance(x, torch.Tensor):
            return x
        made = x.detach()
        made = made.to(torch.float64) if as_double and made.is_floating_point() else made.clone()
        return made.requires_grad_(x.requires_grad)

    return tree_map(one, inputs)


def _results(op, sample, kind, call, as_double=False):
    inputs = _copied((sample.input, sample.args, sample.kwargs), as_double)
    made = call(inputs)
    found = [x for x in tree_leaves(made) if isinstance(x, torch.Tensor)]
    return [x.detach() for x in found] + (_gradients(made, inputs) if kind == "gradient" else [])


# Ops whose elements are not compared: random ones, and whatever was in memory.
_OPEN = "bernoulli rand_like randn_like randint_like randint randn rand multinomial normal uniform randperm".split()
_OPEN += ["empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"]
# Where PyTorch leaves open which of equal elements comes first, and how many arguments are before the axis.
_TIES = {"sort": 0, "argsort": 0, "topk": 1}


def _is_open(op):
    return "dropout" in op.name or op.name in _OPEN


def _same_but_for_ties(op, sample, made, expected):
    """Whether positions are of equal elements, and none is there twice."""
    if op.name not in _TIES or made.dtype != torch.int64 or made.shape != expected.shape or made.ndim == 0:
        return False
    place, x = _TIES[op.name], sample.input
    axis = sample.kwargs.get("dim", sample.args[place] if len(sample.args) > place else -1)
    if made.numel() == 0 or made.min() < 0 or made.max() >= x.shape[axis]:  # values, and no positions
        return False
    in_order = made.sort(axis).values
    one, other = (in_order.narrow(axis, i, max(made.shape[axis] - 1, 0)) for i in (0, int(made.shape[axis] > 0)))
    return bool((one != other).all()) and torch.equal(x.gather(axis, made), x.gather(axis, expected))


def _difference(made, expected, exact):
    """A sentence where results differ by more than eager's own rounding and PyTorch's tolerances of the dtype."""
    try:
        torch.testing.assert_close(made, expected, equal_nan=True, check_stride=False)
        return None
    except AssertionError as different:
        if exact is None or made.shape != expected.shape or made.dtype != expected.dtype:
            return str(different)
    if not made.dtype.is_floating_point:
        return "Integers or bools differ."
    made, expected, exact = (x.to(torch.float64) for x in (made, expected, exact))
    finite = torch.isfinite(exact) & torch.isfinite(expected)
    if not torch.equal(torch.nan_to_num(made[~finite]), torch.nan_to_num(expected[~finite])):
        return "Infinities or NaN differ."
    ours, theirs = (made - exact)[finite].abs(), (expected - exact)[finite].abs()
    if ours.numel() == 0 or ours.max() <= 2 * theirs.max():
        return None
    return f"The largest error is {ours.max():.3g}, and eager's is {theirs.max():.3g}."


def verdict_of_sample(op, sample, kind):
    """The verdict of one sample, and a sentence."""
    direct = lambda inputs: _call(op, sample, inputs)  # noqa: E731
    try:
        expected = _results(op, sample, kind, direct)
    except Exception as refused:
        return "skipped", f"Eager refuses the sample: {refused}"
    seen, token = [], None
    torch._dynamo.reset()
    try:
        seen = []
        token = _backend.watched.set(seen)
        made = _results(op, sample, kind, torch.compile(direct, backend=vkfuse.torch.backend))
    except Exception as failure:
        return "failed", f"{type(failure).__name__}: {failure}"
    finally:
        _backend.watched.reset(token)
    if _is_open(op):
        same = all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(made, expected, strict=True))
        difference = None if same else "Shapes or dtypes differ."
    else:
        difference = _first_difference(op, sample, kind, direct, made, expected)
    if difference:
        return "wrong", difference
    reasons = [reason for graph in seen for one in graph.executables for reason in one.reasons.values()]
    return ("eager", reasons[0]) if reasons else ("ours", "") if seen else ("eager", "Dynamo made no graph of it.")


def _first_difference(op, sample, kind, direct, made, expected):
    if len(made) != len(expected):
        return f"There are {len(made)} results, and eager has {len(expected)}."
    try:
        exact = _results(op, sample, kind, direct, as_double=True)
    except Exception:
        exact = [None] * len(made)
    for i, (one, other, third) in enumerate(zip(made, expected, exact)):
        if (one is None) != (other is None):
            return f"Result {i} is there in one of both."
        if one is None or _same_but_for_ties(op, sample, one, other):
            continue
        if difference := _difference(one, other, third):
            return f"Result {i}: {difference.strip()}"
    return None


def verdict(op, kind, count):
    """The worst verdict of the samples of a row, and its sentence."""
    order = ["wrong", "failed", "eager", "ours", "skipped"]
    worst = ("skipped", "There is no sample.")
    for sample in samples_of(op, kind, count):
        one = verdict_of_sample(op, sample, kind)
        worst = min(worst, one, key=lambda x: order.index(x[0]))
        if worst[0] == "wrong":
            break
    return worst


def run(names, count, part, out):
    by_name = {full_name(op): op for op in op_db}
    wanted = [row for row in ROWS.read_text().split("\n") if row]
    wanted = [row for row in wanted if not names or row.split()[0] in names or row in names][part[0] :: part[1]]
    made = []
    for row in wanted:
        name, kind = row.rsplit(" ", 1)
        start = time.time()
        result, sentence = verdict(by_name[name], kind, count)
        sentence = " ".join(sentence.split())[:300]
        made.append({"row": row, "verdict": result, "why": sentence})
        print(f"{result:8} {row:50} {time.time() - start:5.1f} s  {sentence}", flush=True)
    if out:
        pathlib.Path(out).write_text(json.dumps(made, indent=1) + "\n")
    return made


def main():
    warnings.filterwarnings("ignore")
    logging.getLogger("torch._dynamo").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "run"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--least", type=float, default=0.8)
    parser.add_argument("--out")
    given = parser.parse_intermixed_args()
    if given.what == "list":
        ROWS.write_text("\n".join(rows()) + "\n")
        return
    torch._dynamo.config.cache_size_limit = 1000
    made = run(given.names, given.samples, tuple(map(int, given.part.split("/"))), given.out)
    count = collections.Counter(one["verdict"] for one in made)
    known = len(made) - count["skipped"]
    share = count["ours"] / max(known, 1)
    print(f"{dict(count)}: {share:.1%} of {known} are ours")
    if count["wrong"] or count["failed"] or share < given.least:
        sys.exit(1)


if __name__ == "__main__":
    main()

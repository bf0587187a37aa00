"""Threads, forks, the end of the process, the command, and what the wheel is."""

import ast
import gc
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import vkfuse
from conftest import ROOT

PACKAGE = pathlib.Path(vkfuse.__file__).parent


def run_python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})  # fmt: skip


def in_threads(work, count=6):
    raised = []

    def body(i):
        try:
            work(i)
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not raised, raised


def test_threads_compile_and_run_side_by_side():
    f = vkfuse.jit(lambda a, k: vkfuse.exp(a * k).sum(-1))
    x = np.ones((8, 64), np.float32)
    on_device = vkfuse.array(x)

    def work(i):
        for k in range(4):
            np.testing.assert_allclose(f(x, k + 0.5), np.exp(x * (k + 0.5)).sum(-1), rtol=1e-4)
            assert f(on_device, k + 0.5).numpy().shape == (8,)

    in_threads(work)
    assert f.cached == 4


def test_threads_share_a_stream():
    s = vkfuse.Stream()
    shared = s.array(np.ones(16, np.float32))

    def work(i):
        x = shared
        for k in range(30):
            x = x + float(i)
            if k % 5 == i % 5:
                s.eval(x)
            if k % 7 == 0:
                gc.collect(0)
        np.testing.assert_allclose(s.read(x), np.full(16, 1 + 30.0 * i))

    in_threads(work)


def test_the_gil_is_released_while_compiling():
    counted = [0]
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            stop.wait(0.0005)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    x = vkfuse.input("x", "float32", [4, 8, 64, 32])
    vkfuse.compile(vkfuse.attention(x, x + 1, x * 2, causal=True))
    during = counted[0] - before
    stop.set()
    thread.join()
    assert during > 5


FORK = """
import os, sys, numpy as np, vkfuse
f = vkfuse.jit(lambda a: a + 1)
a = vkfuse.array(np.ones(3, np.float32))
s = vkfuse.Stream(); t = s.array(np.ones(3, np.float32))
f(a); x = np.ones(3, np.float32); f(x)
child = os.fork()
if child == 0:
    status = 1
    heard = []
    for use in (lambda: f(x), lambda: a.numpy(), lambda: vkfuse.array(x), lambda: s.read(t + 1), vkfuse.default_device):
        try:
            use()
        except vkfuse.Unsupported as error:
            heard.append(str(error))
    print(len(heard), *heard, sep="\\n", flush=True)
    del f, a, s, t
    sys.exit(0 if len(heard) == 5 else 1)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert f(x)[0] == 2
"""


def test_a_forked_child_is_refused_with_sentences():
    done = run_python(FORK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fork" in done.stdout


def test_a_fork_before_the_first_use_is_fine():
    done = run_python("import os, sys, numpy as np, vkfuse\nchild = os.fork()\n"
                      "y = vkfuse.jit(lambda a: a + 1)(np.ones(3, np.float32))\nassert y[0] == 2\n"
                      "if child: assert os.waitpid(child, 0)[1] == 0\n")  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_process_ends_cleanly_with_everything_alive():
    done = run_python("""
import numpy as np, vkfuse, threading
x = vkfuse.input("x", "float32", [64, 64])
p = vkfuse.compile(x.sum(-1), tune="background", tune_ms=5000, on_tune=lambda progress: [k for k in range(1000)])
for _ in range(5): p(np.ones((64, 64), np.float32))
device = vkfuse.Device(log=lambda *_: None)
a = vkfuse.array(np.ones(5, np.float32)); s = vkfuse.Stream(); t = s.array(np.ones(3, np.float32)) + 1
f = vkfuse.jit(lambda a: a + 1); b = f(a)
threading.Thread(target=lambda: [f(np.ones(5, np.float32)) for _ in range(200)], daemon=True).start()
keep = [p, device, a, s, t, f, b]; keep.append(keep)
""")
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)


def test_dropping_a_program_that_tunes_does_not_block():
    for _ in range(3):
        program = vkfuse.compile(vkfuse.input("x", "float32", [128, 128]).sum(-1), tune="background", tune_ms=2000,
                                 on_tune=lambda progress: None)  # fmt: skip
        program(np.ones((128, 128), np.float32))
        del program


def test_the_command():
    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "vkfuse", *arguments], capture_output=True, text=True, timeout=60
        )

    assert command("--version").stdout.strip() == vkfuse.__version__
    assert vkfuse.default_device().name in command("devices").stdout
    done = command("run", str(ROOT / "examples/graphs/bias_gelu.vkf"))
    assert done.returncode == 0 and done.stdout, done.stderr
    wrong = command("run", "none.onnx")
    assert wrong.returncode == 2 and wrong.stderr.startswith("vkfuse: ")
    assert command("nosuch").returncode == 2


def test_other_systems_are_a_sentence():
    for version, sentence in [("glibc 2.31", "needs glibc 2.36"), (None, "without it")]:
        done = run_python(f"import os; os.confstr = lambda _: {version!r}; import vkfuse")
        assert done.returncode == 1 and done.stderr.strip().splitlines()[-1].startswith("ImportError: ")
        assert sentence in done.stderr


def test_no_driver_is_a_sentence():
    done = run_python(
        "import vkfuse; vkfuse.array([1.0])", VK_ICD_FILENAMES="/none.json", VK_DRIVER_FILES="/none.json"
    )
    assert done.returncode == 1 and "NoDevice: " in done.stderr.strip().splitlines()[-1], done.stderr


def test_stubs_have_every_name():
    assert (PACKAGE / "py.typed").exists()
    tree = ast.parse((PACKAGE / "_core.pyi").read_text())
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    public = {name for name in dir(vkfuse._core) if not name.startswith("_")}
    assert public <= names and len(public) > 90
    tensor = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")
    methods = {node.name for node in tensor.body if isinstance(node, ast.FunctionDef)}
    assert {"__add__", "__rmatmul__", "__getitem__", "sum", "astype", "T"} <= methods


def test_public_names_have_docstrings():
    for name in dir(vkfuse):
        if not name.startswith("_"):
            assert getattr(vkfuse, name).__doc__, name


def test_errors_are_a_hierarchy():
    for name in ("InvalidArgument Unsupported NotFound NoDevice DeviceError DeviceLost OutOfMemory FileError "
                 "InternalError").split():  # fmt: skip
        assert issubclass(getattr(vkfuse, name), vkfuse.Error)
    with pytest.raises(vkfuse.InvalidArgument) as raised:
        vkfuse.input("x", "float32", [2]) + vkfuse.input("y", "float32", [3])
    assert (
        raised.value.code == "invalid_argument"
        and raised.value.context[0].startswith("inferring")
        and isinstance(raised.value, ValueError)
    )


GOLDENS = sorted(path for path in (ROOT / "tests/golden").rglob("*.glsl")
                 if "cooperative_matrix" in path.read_text())  # fmt: skip


def test_kernels_with_matrix_units_compile():
    """Goldens for devices with matrix units, by the shaderc in the wheel; that of Debian 12 knows none of them."""
    assert len(GOLDENS) >= 3
    for path in GOLDENS[:: max(1, len(GOLDENS) // 40)]:
        words = np.frombuffer(vkfuse._core._compile_glsl(path.read_text(), path.stem), np.uint32)
        assert words[0] == 0x07230203, path
    with pytest.raises(vkfuse.Error, match="nonsense"):
        vkfuse._core._compile_glsl("#version 450\nvoid main() { nonsense(); }", "bad")

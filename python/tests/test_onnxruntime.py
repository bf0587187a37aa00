"""The provider in ONNX Runtime: what it takes, what it says, and that nothing brings the host down."""

import collections
import concurrent.futures
import os
import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime", minversion="1.23")

import node_cases  # noqa: E402
import vkfuse.onnxruntime  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
# A library that a build folder has, in place of the package's.
LIBRARY = os.environ.get("VKFUSE_TEST_PROVIDER") or vkfuse.onnxruntime.library_path()
OURS, CPU = "VkfuseExecutionProvider", "CPUExecutionProvider"


@pytest.fixture(scope="module")
def host():
    return node_cases.OnnxRuntime(LIBRARY)


def value(name, dtype, sizes):
    return helper.make_tensor_value_info(name, dtype, sizes)


def model(nodes, inputs, outputs, weights=None):
    initialisers = [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def of(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def mlp():
    """Softmax of a matrix product, for any number of rows."""
    weights = {"w": np.arange(12, dtype=np.float32).reshape(4, 3) / 7, "b": np.float32([1, -1, 0])}
    nodes = [of("MatMul", ["x", "w"], ["a"]), of("Add", ["a", "b"], ["h"]), of("Softmax", ["h"], ["y"], axis=-1)]
    return model(nodes, [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 3])], weights), weights


def softmax(h):
    e = np.exp(h - h.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# Many enough to have most families of operators, and few enough for a change to wait for them.
def test_sample_of_onnx_cases(host):
    rows = [(name, *node_cases.verdict(host, model, data)) for name, model, data in node_cases.cases(every=16)]
    assert not [row for row in rows if row[1] in ("wrong", "failed")]
    count = collections.Counter(row[1] for row in rows)
    assert count["passed"] >= 0.85 * len(rows), count


def test_one_session_serves_all_sizes(host, rng):
    made, weights = mlp()
    session = host.session(made.SerializeToString())
    assert set(host.assigned(session)) == {OURS}
    for rows in (1, 5, 64, 5):
        x = rng.standard_normal((rows, 4), dtype=np.float32)
        (y,) = session.run(None, {"x": x})
        np.testing.assert_allclose(y, softmax(x @ weights["w"] + weights["b"]), 1e-5, 1e-6)


def test_threads_share_a_session(host, rng):
    made, weights = mlp()
    session = host.session(made.SerializeToString())

    def one(seed):
        x = np.random.default_rng(seed).standard_normal((1 + seed % 9, 4), dtype=np.float32)
        return x, session.run(None, {"x": x})[0]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for x, y in pool.map(one, range(64)):
            np.testing.assert_allclose(y, softmax(x @ weights["w"] + weights["b"]), 1e-5, 1e-6)


def test_values_that_are_bound_stay_on_the_device(host, rng):
    made, weights = mlp()
    session = host.session(made.SerializeToString())
    x = rng.standard_normal((5, 4), dtype=np.float32)
    wanted = softmax(x @ weights["w"] + weights["b"])
    given = vkfuse.onnxruntime.on_device(x)
    kept = vkfuse.onnxruntime.on_device(np.zeros((5, 3), np.float32))
    assert given.device_name() != "cpu"
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", given)
    binding.bind_ortvalue_output("y", kept)
    for _ in range(3):
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(kept.numpy(), wanted, 1e-5, 1e-6)
    np.testing.assert_array_equal(given.numpy(), x)
    # To the host, of values on the device.
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], wanted, 1e-5, 1e-6)


def test_a_result_is_the_next_input(host, rng):
    twice = model([of("Add", ["x", "x"], ["y"]), of("Neg", ["x"], ["z"])], [value("x", FLOAT, [1000])],
                  [value("y", FLOAT, [1000]), value("z", FLOAT, [1000])])
    session = host.session(twice.SerializeToString())
    x = rng.standard_normal(1000, dtype=np.float32)
    values = [vkfuse.onnxruntime.on_device(one) for one in (x, 0 * x, 0 * x)]
    for _ in range(6):
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", values[0])
        binding.bind_ortvalue_output("y", values[1])
        binding.bind_ortvalue_output("z", values[2])
        session.run_with_iobinding(binding)
        values = [values[1], values[0], values[2]]
    np.testing.assert_array_equal(values[0].numpy(), 64 * x)
    np.testing.assert_array_equal(values[2].numpy(), -32 * x)


def test_values_outlive_their_session_and_are_read_by_others(host, rng):
    x = rng.standard_normal((2, 4), dtype=np.float32)
    made, weights = mlp()
    session = host.session(made.SerializeToString())
    result = vkfuse.onnxruntime.on_device(np.zeros((2, 3), np.float32))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", vkfuse.onnxruntime.on_device(x))
    binding.bind_ortvalue_output("y", result)
    session.run_with_iobinding(binding)
    del session, binding
    wanted = softmax(x @ weights["w"] + weights["b"])
    # A store of its own gives the session another device: the value is copied by way of the host.
    exp = model([of("Exp", ["y"], ["e"])], [value("y", FLOAT, [2, 3])], [value("e", FLOAT, [2, 3])])
    for options in ({}, {"cache": "off"}):
        other = host.session(exp.SerializeToString(), options=options)
        outside = vkfuse.onnxruntime.on_device(np.zeros((2, 3), np.float32))
        binding = other.io_binding()
        binding.bind_ortvalue_input("y", result)
        binding.bind_ortvalue_output("e", outside)
        other.run_with_iobinding(binding)
        np.testing.assert_allclose(outside.numpy(), np.exp(wanted), 1e-5, 1e-6)


def test_memory_that_is_freed_serves_again(host):
    addresses = set()
    for i in range(20):
        one = vkfuse.onnxruntime.on_device(np.full(3000, i, np.float32))
        addresses.add(one.data_ptr())
        np.testing.assert_array_equal(one.numpy(), np.full(3000, i, np.float32))
        del one
    assert len(addresses) == 1


def mixed():
    """Texts between two nodes of numbers, which are nobody's on a GPU."""
    nodes = [of("Exp", ["x"], ["a"]), of("Cast", ["a"], ["t"], to=STRING), of("Cast", ["t"], ["b"], to=FLOAT),
             of("Mul", ["b", "a"], ["y"])]
    return model(nodes, [value("x", FLOAT, [3])], [value("y", FLOAT, [3])])


def test_what_is_not_ours_runs_elsewhere_and_the_log_says_why_once(host, capfd):
    session = host.session(mixed().SerializeToString(), alone=False, severity=2)
    assert sorted(host.assigned(session)[OURS]) == ["Exp", "Mul"]
    assert host.assigned(session)[CPU] == ["Cast", "Cast"]
    log = capfd.readouterr().err
    assert log.count("(Cast) to other providers: The elements of 't' are texts or complex numbers.") == 2
    assert log.count("the node that computes 't'") == 1
    x = np.float32([0, 1, 2])
    np.testing.assert_allclose(session.run(None, {"x": x})[0], np.exp(x) ** 2, 1e-5)


def test_values_between_groups_are_in_one_block(host, rng):
    """ONNX Runtime packs values of known sizes into one allocation, after a first run that tells them."""
    nodes = [of("Exp", ["x"], ["a"]), of("Neg", ["x"], ["b"]), of("Abs", ["x"], ["c"])]
    for name in "abc":
        nodes += [of("Cast", [name], [name + "t"], to=STRING), of("Cast", [name + "t"], [name + "f"], to=FLOAT)]
    nodes += [of("Add", ["af", "bf"], ["d"]), of("Sub", ["d", "cf"], ["y"]), of("Add", ["a", "b"], ["g"]),
              of("Mul", ["g", "af"], ["z"])]
    both = [value("y", FLOAT, [7, 9]), value("z", FLOAT, [7, 9])]
    session = host.session(model(nodes, [value("x", FLOAT, [7, 9])], both).SerializeToString(), alone=False)
    for _ in range(4):
        x = rng.standard_normal((7, 9), dtype=np.float32)
        y, z = session.run(None, {"x": x})
        np.testing.assert_allclose(y, np.exp(x) - x - np.abs(x), 1e-4, 1e-4)
        np.testing.assert_allclose(z, np.exp(x) * (np.exp(x) - x), 1e-4, 1e-4)


def test_a_path_through_others_cuts_a_group(host):
    session = host.session(mixed().SerializeToString(), alone=False)
    groups = [part for part in session.get_provider_graph_assignment_info() if part.ep_name == OURS]
    assert len(groups) == 2


def test_without_other_providers_a_model_that_is_not_all_ours_is_refused(host):
    with pytest.raises(Exception, match="fallback to CPU EP has been explicitly disabled"):
        host.session(mixed().SerializeToString())


@pytest.mark.parametrize("options, sentence", [
    ({"devise": "0"}, "has no option 'devise'; it has device, numerics, cache, tune, tune_ms, fusion, dump"),
    ({"numerics": "fast"}, "is 'fast'; it is one of standard, strict, f16_accumulation"),
    ({"tune_ms": "soon"}, "'soon', which is no time in milliseconds"),
    ({"device": "no such device"}, "no such device"),
])  # fmt: skip
def test_wrong_options_are_errors_with_a_sentence(host, options, sentence, capfd):
    with pytest.raises(Exception, match=".") as raised:
        host.session(mlp()[0].SerializeToString(), options=options)
    # Up to 1.30 its Python prints the error, and tries other providers, which the session does not allow.
    assert sentence in str(raised.value) + capfd.readouterr().out


def test_options_reach_the_library(host, tmp_path):
    made, _ = mlp()
    host.session(made.SerializeToString(), options={"numerics": "strict", "dump": str(tmp_path), "cache": "off"})
    assert "fused" in (tmp_path / "group0.txt").read_text()
    dumped = onnx.load_model(tmp_path / "group0.onnx", load_external_data=False)
    assert {node.op_type for node in dumped.graph.node} <= {"Gemm", "MatMul", "Add", "Softmax"}


def test_an_error_of_a_run_is_an_error_and_the_session_goes_on(host):
    made = model([of("Reshape", ["x", "shape"], ["y"])], [value("x", FLOAT, [6]), value("shape", INT64, [2])],
                 [value("y", FLOAT, ["a", "b"])])
    session = host.session(made.SerializeToString())
    x = np.arange(6, dtype=np.float32)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="reshape|Reshape"):
        session.run(None, {"x": x, "shape": np.int64([4, 2])})
    for shape in ([2, 3], [3, -1], [1, 6]):
        np.testing.assert_array_equal(session.run(None, {"x": x, "shape": np.int64(shape)})[0], x.reshape(shape))


def test_results_that_have_shapes_by_data(host):
    made = model([of("NonZero", ["x"], ["p"])], [value("x", FLOAT, [2, 3])], [value("p", INT64, [2, "n"])])
    session = host.session(made.SerializeToString())
    for x in (np.eye(2, 3), np.ones((2, 3)), np.zeros((2, 3))):
        np.testing.assert_array_equal(session.run(None, {"x": x.astype(np.float32)})[0], np.array(np.nonzero(x)))


@pytest.mark.parametrize("steps", [3, 70])  # 70 are run in rounds, which are rounded by the range of all
def test_a_quantised_lstm_rounds_as_onnx_runtime_does(host, rng, steps):
    integers = {"w": rng.integers(-64, 64, (1, 3, 16)), "r": rng.integers(-64, 64, (1, 4, 16)), "z": np.zeros(1)}
    weights = {name: array.astype(np.int8) for name, array in integers.items()} | {"s": np.float32([0.01])}
    node = of("DynamicQuantizeLSTM", ["x", "w", "r", "", "n", "", "", "", "s", "z", "s", "z"], ["y"], hidden_size=4,
              domain="com.microsoft")
    made = model([node], [value("x", FLOAT, [steps, 2, 3]), value("n", TensorProto.INT32, [2])],
                 [value("y", FLOAT, [steps, 1, 2, 4])], weights)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    x = rng.standard_normal((steps, 2, 3)).astype(np.float32)
    x[-1] *= 9  # after the end of both sequences: it decides nothing
    feeds = {"x": x, "n": np.int32([steps // 2, steps - 1])}
    alone = onnxruntime.SessionOptions()
    alone.intra_op_num_threads = 1  # several may round the states of each sequence by a range of its own
    right = onnxruntime.InferenceSession(made.SerializeToString(), alone, providers=[CPU]).run(None, feeds)[0]
    np.testing.assert_allclose(host.session(made.SerializeToString()).run(None, feeds)[0], right, 0, 5e-4)


def test_an_initialiser_that_a_run_may_replace(host):
    made, weights = mlp()
    made.graph.input.append(value("b", FLOAT, [3]))
    session = host.session(made.SerializeToString())
    x = np.ones((2, 4), np.float32)
    for b in (weights["b"], np.float32([3, 2, 1])):
        given = {"x": x} if b is weights["b"] else {"x": x, "b": b}
        np.testing.assert_allclose(session.run(None, given)[0], softmax(x @ weights["w"] + b), 1e-5)


def test_weights_beside_the_model(host, tmp_path, rng):
    w = rng.standard_normal((64, 64), dtype=np.float32)
    x, y = value("x", FLOAT, [2, 64]), value("y", FLOAT, [2, 64])
    made = model([of("MatMul", ["x", "w"], ["y"])], [x], [y], {"w": w})
    onnx.save_model(made, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=16)
    session = host.session(str(tmp_path / "m.onnx"))
    x = rng.standard_normal((2, 64), dtype=np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ w, 1e-4, 1e-4)


def branches(extra_inputs=(), extra=()):
    def branch(name, op):
        nodes = [of("Add", ["x", "w"], ["a" + name]), of(op, ["a" + name], ["y" + name])]
        outputs = [value("y" + name, FLOAT, [4])]
        for inside, output in extra:
            nodes.append(of(inside, ["s"], [output + name]))
            outputs.append(value(output + name, STRING, None))
        return helper.make_graph(nodes, name, [], outputs)

    node = of("If", ["c"], ["y", *(output for _, output in extra)], then_branch=branch("t", "Relu"),
              else_branch=branch("e", "Neg"))
    return model([node], [value("c", BOOL, []), value("x", FLOAT, [4]), *extra_inputs],
                 [value("y", FLOAT, [4]), *(value(output, STRING, None) for _, output in extra)],
                 {"w": np.float32([1, 2, 3, 4])})


def check_branches(session, given):
    x = np.float32([-5, 1, -9, 3])
    for c in (True, False):
        y = session.run(["y"], {"c": np.array(c), "x": x, **given})[0]
        h = x + np.float32([1, 2, 3, 4])
        np.testing.assert_array_equal(y, np.maximum(h, 0) if c else -h)


def precompiled(host, path, embed, options=None):
    """The model at `path` as ONNX Runtime writes it with its groups compiled."""
    written = str(path) + ".ctx.onnx"
    keys = {"ep.context_enable": "1", "ep.context_embed_mode": embed, "ep.context_file_path": written}
    host.session(str(path), options=options, keys=keys)
    return written


@pytest.mark.parametrize("embed", ["0", "1"])
def test_a_precompiled_model_needs_the_other_no_more(host, tmp_path, rng, embed):
    made, _ = mlp()
    onnx.save(made, tmp_path / "m.onnx")
    x = rng.standard_normal((5, 4)).astype(np.float32)
    expected = host.session(made.SerializeToString()).run(None, {"x": x})[0]
    written = precompiled(host, tmp_path / "m.onnx", embed)
    (tmp_path / "m.onnx").unlink()
    (node,) = onnx.load(written).graph.node
    assert (node.op_type, node.domain, list(node.input), list(node.output)) == \
        ("EPContext", "com.microsoft", ["x"], ["y"])
    beside = [one.name for one in tmp_path.iterdir() if one.name.endswith(".vkfuse")]
    assert len(beside) == (1 if embed == "0" else 0)
    session = host.session(written)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
    other = rng.standard_normal((2, 4)).astype(np.float32)
    np.testing.assert_allclose(session.run(None, {"x": other})[0], softmax(other @ mlp()[1]["w"] + mlp()[1]["b"]),
                               1e-5)


def test_a_precompiled_model_keeps_what_others_run(host, tmp_path, rng):
    onnx.save(mixed(), tmp_path / "m.onnx")
    keys = {"ep.context_enable": "1", "ep.context_embed_mode": "1", "ep.context_file_path": str(tmp_path / "c.onnx")}
    expected = host.session(str(tmp_path / "m.onnx"), alone=False, keys=keys)
    kinds = collections.Counter(node.op_type for node in onnx.load(tmp_path / "c.onnx").graph.node)
    assert kinds["EPContext"] >= 1 and len(kinds) > 1
    session = host.session(str(tmp_path / "c.onnx"), alone=False)
    feeds = {one.name: rng.standard_normal([s if isinstance(s, int) else 3 for s in one.shape]).astype(np.float32)
             for one in session.get_inputs()}
    for got, right in zip(session.run(None, feeds), expected.run(None, feeds)):
        np.testing.assert_array_equal(got, right)


def test_a_damaged_precompiled_model_is_an_error_with_a_sentence(host, tmp_path):
    onnx.save(mlp()[0], tmp_path / "m.onnx")
    written = precompiled(host, tmp_path / "m.onnx", "0")
    (beside,) = [one for one in tmp_path.iterdir() if one.name.endswith(".vkfuse")]
    whole = beside.read_bytes()
    for broken, sentence in [(whole[:100], "is damaged at byte"), (b"", "is damaged at byte 0"),
                             (whole[:-64], "is damaged at byte"), (None, "There is no file")]:
        beside.unlink(missing_ok=True)
        if broken is not None:
            beside.write_bytes(broken)
        with pytest.raises(Exception, match=sentence):
            host.session(written)


def test_a_branch_is_ours_with_its_node(host):
    session = host.session(branches().SerializeToString())
    assert host.assigned(session)[OURS] == ["If"]
    check_branches(session, {})


def test_nodes_in_branches_are_ours_where_the_node_is_not(host):
    made = branches([value("s", STRING, [2])], [("StringNormalizer", "z")])
    session = host.session(made.SerializeToString(), alone=False)
    assert sorted(host.assigned(session)[OURS]) == ["Add", "Add", "Neg", "Relu"]
    check_branches(session, {"s": np.array(["a", "b"])})


IN_PROCESS = """
import gc, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, onnxruntime, node_cases, test_onnxruntime as t
host = node_cases.OnnxRuntime(t.LIBRARY)
session = host.session(t.mlp()[0].SerializeToString())
x = np.ones((2, 4), np.float32)
before = session.run(None, {"x": x})[0]
"""

A_SESSION_LIVES_ON = """
onnxruntime.unregister_execution_provider_library("vkfuse")
assert (session.run(None, {"x": x})[0] == before).all()
del session
gc.collect()
"""

REGISTERED_AGAIN = """
onnxruntime.unregister_execution_provider_library("vkfuse")
host = node_cases.OnnxRuntime(t.LIBRARY)
again = host.session(t.mlp()[0].SerializeToString())
assert (again.run(None, {"x": x})[0] == before).all()
assert (session.run(None, {"x": x})[0] == before).all()
del session
gc.collect()
assert (again.run(None, {"x": x})[0] == before).all()
"""


# In processes of their own: what is registered is the whole process's. All of them end with a session or without.
@pytest.mark.parametrize("body", ["", A_SESSION_LIVES_ON, REGISTERED_AGAIN])
def test_the_library_may_go_before_its_sessions(body):
    program = IN_PROCESS + body + 'print("done")\n'
    folder = os.path.dirname(os.path.abspath(__file__))
    freed = {**os.environ, "MALLOC_PERTURB_": "165"}  # memory that was given back holds something else at once
    command = [sys.executable, "-P", "-c", program, folder]
    ran = subprocess.run(command, env=freed, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (0, "done"), ran.stderr

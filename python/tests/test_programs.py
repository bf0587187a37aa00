"""Programs, graphs, jit, streams and models."""

import dataclasses
import json

import numpy as np
import pytest

import vkfuse


def test_readme():
    @vkfuse.jit
    def f(x):
        return vkfuse.relu(x * 2) + 1

    np.testing.assert_array_equal(f(np.array([-1, 0, 1, 3], np.float32)), [1, 1, 3, 7])
    assert f.compile(np.zeros(4, np.float32)).kernel_count == 1 and "fused" in f.plan(np.zeros(4, np.float32))


def test_jit_traces_once_for_each_kind_of_arguments():
    calls = []

    @vkfuse.jit(static="mode")
    def f(params, x, scale=2, mode="plain"):
        calls.append(mode)
        y = x @ params["w"] + params["b"][0]
        return {"y": y * scale, "mode": mode, "pair": (y, [x])}

    w, b = np.eye(3, dtype=np.float32), [np.ones(3, np.float32)]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for _ in range(3):
        result = f({"w": w, "b": b}, x)
    assert calls == ["plain"] and f.cached == 1
    np.testing.assert_array_equal(result["y"], (x + 1) * 2)
    np.testing.assert_array_equal(result["pair"][1][0], x)
    assert result["mode"] == "plain" and isinstance(result["pair"], tuple)
    f({"w": w, "b": b}, x, 3)
    f({"w": w, "b": b}, x, mode="other")
    f({"w": w, "b": b}, x[:1])
    assert calls == ["plain", "plain", "other", "plain"] and f.cached == 4
    with pytest.raises(TypeError, match="not hashable"):
        f({"w": w, "b": b}, x, mode=set())
    assert f(params={"w": w, "b": b}, x=x)["mode"] == "plain"
    one = vkfuse.jit(lambda a, k: a * k)
    assert one(x, True).dtype == np.float32 and one(x, 1).dtype == np.float32 and one.cached == 2  # True is not 1


@dataclasses.dataclass(frozen=True)
class Scale:
    by: float


def test_jit_tells_static_arguments_apart_by_types_and_bits():
    x = np.float32(1)
    over = vkfuse.jit(lambda a, s: a / s)
    assert [over(x, s) for s in (0.0, -0.0, 0.0)] == [np.inf, -np.inf, np.inf] and over.cached == 2
    kinds = vkfuse.jit(lambda a, s: (a, repr(s)), static="s")
    pairs = [
        ((True,), (1,)), ((0.0,), (-0.0,)), ((1, (2,)), (1, (2.0,))), (frozenset([0.0]), frozenset([-0.0])),
        (complex(0, 0.0), complex(0, -0.0)), (Scale(0.0), Scale(-0.0)), (Scale(1), Scale(True)), (1, True),
        (np.float32(0), np.float32(-0.0)), (np.float32(1), np.float64(1)), ("1", b"1"), (None, False),
    ]  # fmt: skip
    every = [one for pair in pairs for one in pair]
    for _ in range(2):
        assert [kinds(x, one)[1] for one in every] == [repr(one) for one in every]
    assert kinds.cached == len(every)
    kinds(x, float("nan")), kinds(x, float("nan"))
    assert kinds.cached == len(every) + 1
    keys = vkfuse.jit(lambda d: (d.popitem()[1], [repr(one) for one in d]))
    for key in (True, 1, 1.0, "1"):
        assert keys({key: x, "last": x})[1] == [repr(key)]


def test_jit_of_what_uses_no_input():
    assert vkfuse.jit(lambda x: 3)(np.ones(2)) == 3
    np.testing.assert_array_equal(vkfuse.jit(lambda x: vkfuse.arange(4))(np.ones(2, np.float32)), [0, 1, 2, 3])
    np.testing.assert_array_equal(
        vkfuse.jit(lambda x, y: y + 1)(np.ones(2, np.float32), np.zeros(2, np.int32)), [1, 1]
    )
    np.testing.assert_array_equal(vkfuse.jit(lambda x: (x, x))(np.ones(2, np.float32))[1], [1, 1])


@pytest.mark.parametrize("f, sentence", [
    (lambda x: x if x > 0 else -x, "vkfuse.where"), (lambda x: float(x), "no elements"),
    (lambda x: np.asarray(x), "no array"),
    (lambda x: np.sort(x), "numpy.sort"), (lambda x: np.add.reduce(x), "numpy.add"), (lambda x: x + "a",
    "unsupported operand"),
    (lambda x: range(x), "no elements"), (lambda x: x[x > 0], "where"),
])  # fmt: skip
def test_what_cannot_be_traced_is_a_sentence(f, sentence):
    with pytest.raises(TypeError, match=sentence):
        vkfuse.jit(f)(np.ones(3, np.float32))


def test_graphs_with_symbols():
    g = vkfuse.Graph("rows")
    x = g.input("x", "float32", [vkfuse.Dim("n", max=64), 4])
    g.output("sums", x.sum(-1))
    assert x.shape == ("n", 4) and x.shape[0].max == 64 and 'input "x" : f32[n, 4]' in str(g)
    program = g.compile()
    for n in (1, 5, 64):
        np.testing.assert_array_equal(program(np.ones((n, 4), np.float32))["sums"], np.full(n, 4))
        np.testing.assert_array_equal(
            program(x=vkfuse.array(np.ones((n, 4), np.float32)))["sums"].numpy(), np.full(n, 4)
        )
    assert program.memory(n=64)["inputs"] == 1024
    for wrong, sentence in [
        (np.ones((65, 4), np.float32), "64"),
        (np.ones((2, 3), np.float32), "4"),
        (np.ones(4, np.float32), r"\[n, 4\]"),
        (np.ones((2, 4)), "float64"),
    ]:
        for form in (wrong, vkfuse.array(wrong)):
            with pytest.raises(vkfuse.Error, match=sentence):
                program(form)
    for arguments, named in [((), {}), ((1, 2), {}), ((), {"z": 1}), ((np.ones((1, 4), np.float32),), {"x": 1})]:
        with pytest.raises(vkfuse.InvalidArgument):
            program(*arguments, **named)
    with pytest.raises(vkfuse.InvalidArgument, match="already"):
        g.input("x")


def test_symbols_agree():
    g = vkfuse.Graph()
    a, b = g.input("a", "float32", ["n"]), g.input("b", "float32", ["n"])
    g.output("y", a + b)
    program = g.compile()
    for make in (np.asarray, vkfuse.array):
        with pytest.raises(vkfuse.InvalidArgument, match="n"):
            program(make(np.ones(3, np.float32)), make(np.ones(4, np.float32)))


def test_explanations_and_saved_plans():
    x = vkfuse.input("x", "float32", [8, 16])
    y = vkfuse.softmax(x * 0.125)
    program = vkfuse.compile({"y": y})
    assert [one.name for one in program.inputs] == ["x"] and program.outputs[0].shape == (8, 16)
    assert "softmax" not in program.plan() and json.loads(program.explain("json"))["segments"]
    assert "void main" in program.explain("glsl", 0) and "OpEntryPoint" in program.explain("spirv")
    assert "kernel" in program.explain("msl") and "<html" in program.html()
    saved = program.save_plan()
    again = vkfuse.compile({"y": y}, plan=saved)
    data = np.ones((8, 16), np.float32)
    np.testing.assert_array_equal(again(data)["y"], program(data)["y"])
    with pytest.raises(vkfuse.Error):
        vkfuse.compile({"y": y}, plan=saved.replace("fused", "fusd")[:-5])
    with pytest.raises(vkfuse.Error, match="99"):
        program.explain("glsl", 99)
    with pytest.raises(vkfuse.InvalidArgument, match="no stage"):
        program.explain("wasm")
    assert vkfuse.compile(y, fusion=False).kernel_count > program.kernel_count == 1
    text = vkfuse.graph_text({"y": y})
    np.testing.assert_array_equal(vkfuse.compile_text(text)(data)["y"], program(data)["y"])
    vkfuse.supports(y)
    for page in (program._repr_html_(), vkfuse.Graph()._repr_html_()):
        assert page.startswith("<") and "<script" not in page.split("srcdoc")[0]


def test_options_are_checked():
    y = vkfuse.input("x", "float32", [4]) + 1
    for options, error in [
        ({"fusoin": False}, TypeError),
        ({"planner": "best"}, vkfuse.Error),
        ({"numerics": "exact"}, ValueError),
        ({"without": ["nothing"]}, vkfuse.Error),
        ({"tune": "maybe"}, ValueError),
        ({"tune_ms": "a"}, TypeError),
        ({"on_tune": 3}, TypeError),
        ({"tune_ms": -1}, vkfuse.Error),
        ({"memory_budget": -1}, vkfuse.Error),
        ({"memory_budget": "much"}, TypeError),
    ]:
        with pytest.raises(error):
            vkfuse.compile(y, **options)
    with pytest.raises(vkfuse.NotFound, match="nosuch"):
        vkfuse.Device("nosuch")
    with pytest.raises(vkfuse.Error):
        vkfuse.Device(disable=["nosuch"])
    assert vkfuse.compile(y, planner=None, numerics="strict")(np.zeros(4, np.float32))["y"].sum() == 4


def test_a_memory_budget_is_kept():
    x, weights = vkfuse.input("x", "float32", [64, 64]), vkfuse.input("w", "float32", [64, 64])
    y = x
    for _ in range(8):
        y = vkfuse.tanh(y @ weights)
    outputs = {"loss": (y * y).sum(), "slope": vkfuse.gradients((y * y).sum(), weights)}
    program = vkfuse.compile(outputs)
    budget = program.memory()["arena"] * 13 // 20
    small = vkfuse.compile(outputs, memory_budget=budget)
    assert small.memory()["arena"] <= budget
    assert small.kernel_count > program.kernel_count
    assert f"memory budget: {budget} bytes" in small.explain("plan")
    rng = np.random.default_rng(3)
    data = [rng.standard_normal((64, 64)).astype(np.float32) * 0.2 for _ in range(2)]
    for name, expected in program(x=data[0], w=data[1]).items():
        np.testing.assert_allclose(small(x=data[0], w=data[1])[name], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(vkfuse.Error, match="in the smallest plan that was found, and the memory budget is 1 bytes"):
        vkfuse.compile(outputs, memory_budget=1)


def test_times_and_tuning(device):
    program = vkfuse.compile(vkfuse.input("x", "float32", [256, 256]).sum(-1))
    data = np.ones((256, 256), np.float32)
    try:
        times = program.profile(data)
    except vkfuse.Unsupported:
        pytest.skip("The queue has no timestamps.")
    assert times[0].microseconds > 0 and times[0].bytes > 2**18 and program.replay_us(data) > 0
    assert "measured" in program.explain_measured("plan", times)
    seen = []
    done = program.tune(50, progress=seen.append)
    assert done.segments == 1 and seen and seen[-1].segments == 1
    with pytest.raises(vkfuse.Error, match="boom"):
        program.tune(50, progress=lambda _: (_ for _ in ()).throw(RuntimeError("boom")))
    assert program(data)["y"][0] == 256


def test_times_of_a_jitted_function(device):
    f = vkfuse.jit(lambda params, x: {"y": params["w"] * x + 1}, device=device)
    params, x = {"w": np.ones(70000, np.float32), "unused": np.ones(3, np.float32)}, np.ones(70000, np.float32)
    try:
        assert [one.microseconds > 0 for one in f.profile(params, x)] == [True]
    except vkfuse.Unsupported:
        pytest.skip("The queue has no timestamps.")
    with pytest.raises(TypeError, match="Only arrays have a program, and an argument is a tensor."):
        f.profile(params, vkfuse.input("x", "float32", [70000]))


def test_logs_and_reports():
    heard = []
    device = vkfuse.Device(log=lambda level, sentence: heard.append((level, sentence)))
    f = vkfuse.jit(lambda a: a.exp() if hasattr(a, "exp") else vkfuse.exp(a), device=device)
    f(np.ones(3, np.float32))
    assert heard and {level for level, _ in heard} <= {"debug", "info", "warning"}
    assert device.describe()["name"] == device.name and device.store()["off"]
    assert any(one["name"] == device.name for one in vkfuse.Device.list())


def test_streams():
    s = vkfuse.Stream()
    x = s.array(np.ones(4, np.float32))
    for _ in range(20):
        x = x * 0.5 + 1
        s.eval(x)
    np.testing.assert_allclose(s.read(x), np.full(4, 2), rtol=1e-5)
    assert s.report()["plans"] <= 3 and "input" in s.dump(x + 1) and s.explain()
    np.testing.assert_array_equal(s.buffer(x).numpy(), s.read(x))
    cache = s.array(np.zeros((1, 2), np.float32))
    for i in range(5):
        cache = s.append(cache, s.array(np.full((1, 2), i + 1, np.float32)))
    assert s.read(cache)[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    wrapped = s.wrap(vkfuse.array(np.arange(3, dtype=np.int32)))
    assert s.read(wrapped + 1).tolist() == [1, 2, 3]
    with pytest.raises(vkfuse.Error):
        s.eval(vkfuse.input("x", "float32", [3]))
    with pytest.raises(vkfuse.Error):
        s.read(x + vkfuse.Stream().array(np.ones(4, np.float32)))
    lost = vkfuse.Stream().array(np.ones(4, np.float32)) + 1
    with pytest.raises(vkfuse.Error):
        s.read(lost)


@pytest.fixture
def model():
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    w = helper.make_tensor("w", TensorProto.FLOAT, [3, 2], np.arange(6, dtype=np.float32).tobytes(), raw=True)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [w],
    )
    return onnx.helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_models(model, tmp_path):
    path = tmp_path / "tiny.onnx"
    path.write_bytes(model.SerializeToString())
    x = np.array([[1, -2, 3], [0, 1, 0]], np.float32)
    want = np.maximum(x @ np.arange(6, dtype=np.float32).reshape(3, 2), 0)
    for source in (path, str(path), model.SerializeToString(), bytearray(model.SerializeToString()), model):
        program = vkfuse.load(source)
        assert program.input_names == ["x"] and program.output_names == ["y"]
        np.testing.assert_array_equal(program(x)["y"], want)
        np.testing.assert_array_equal(program(x=vkfuse.array(x))["y"], want)
    assert "plan of" in program.plan() and program.notes == []
    assert program.profile(x)
    assert vkfuse.load(model, floats="float16").inputs[0].dtype == np.float16
    assert vkfuse.load(model, dims={"n": 2}).inputs[0].shape == (2, 3)
    graph = vkfuse.Graph.from_onnx(path)
    np.testing.assert_array_equal(graph.compile()(vkfuse.array(x))["y"].numpy(), want)
    for bad, error in [
        (b"nonsense", ValueError),
        (b"", ValueError),
        (tmp_path / "none.onnx", LookupError),
        (tmp_path, OSError),
        (model.SerializeToString()[:-9], ValueError),
    ]:
        with pytest.raises(error) as raised:
            vkfuse.load(bad)
        assert isinstance(raised.value, vkfuse.Error), raised.value
    for bad in (3, None, 1.5):
        with pytest.raises(TypeError):
            vkfuse.load(bad)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
                                  "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2"])
def test_elements_of_few_bits_are_those_of_ml_dtypes(name):
    """Both ways through a model, beside the conversions of ml_dtypes."""
    onnx, ml_dtypes = pytest.importorskip("onnx"), pytest.importorskip("ml_dtypes")
    helper = onnx.helper
    types = {"float8_e8m0fnu": "FLOAT8E8M0", "float4_e2m1fn": "FLOAT4E2M1"}
    code = getattr(onnx.TensorProto, types.get(name, name.upper().replace("_", "")), None)
    if code is None or not hasattr(ml_dtypes, name):
        pytest.skip(f"The packages onnx and ml_dtypes that are installed have no {name}.")
    dtype = np.dtype(getattr(ml_dtypes, name))
    value, single = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["few"], to=code), helper.make_node("Reshape", ["given", "flat"], ["moved"]),
         helper.make_node("Cast", ["given"], ["wide"], to=single)],
        "few_bits",
        [value("x", single, [5]), value("given", code, [5, 1])],
        [value("few", code, [5]), value("moved", code, [5]), value("wide", single, [5, 1])],
        [onnx.numpy_helper.from_array(np.array([5]), "flat")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    x = np.array([0, 1, 2, 0.5, 1], np.float32)
    if not name.startswith("u") and name != "float8_e8m0fnu":
        x[-1] = -1
    if "int" in name:
        x[2:4] = 1
    if name == "float8_e8m0fnu":  # which has no zero
        x[0] = 4
    given = x.astype(dtype).reshape(5, 1)
    results = vkfuse.load(model)(x, given)
    assert results["few"].dtype == results["moved"].dtype == dtype
    np.testing.assert_array_equal(results["few"].astype(np.float32), x.astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(results["moved"].astype(np.float32), x.astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(results["wide"], given.astype(np.float32))
    bytes_of = np.int8 if name.startswith("int") else np.uint8  # what they are held in is taken as it is
    held = given.astype(np.int8) if "int" in name else given.view(np.uint8)
    np.testing.assert_array_equal(vkfuse.load(model)(x, held.astype(bytes_of))["wide"], results["wide"])


def test_models_over_two_gibibytes_are_a_sentence(tmp_path):
    path = tmp_path / "large.onnx"
    with open(path, "wb") as file:
        file.truncate(2**31 + 5)  # sparse
    with pytest.raises(vkfuse.Unsupported, match="protobuf"):
        vkfuse.load(path)
    import mmap

    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as bytes_of_it:
        with pytest.raises(vkfuse.Unsupported, match="protobuf"):
            vkfuse.load(memoryview(bytes_of_it))


def test_options_of_models(model):
    with pytest.raises(TypeError, match="no option 'dim'"):
        vkfuse.load(model, dim={"n": 1})
    with pytest.raises(vkfuse.Error):
        vkfuse.load(model, floats="int8")
    with pytest.raises(vkfuse.InvalidArgument, match="float64"):
        vkfuse.load(model)(np.ones((2, 3)))


@pytest.mark.parametrize("donate", [True, (0, False), -1, "x", 0.5, [None]])
def test_what_is_no_position_is_not_donated(donate):
    with pytest.raises(TypeError, match="integers from 0, not "):
        vkfuse.jit(lambda x: x, donate=donate)


def test_arguments_that_a_jitted_function_is_given_away(device):
    def step(state, x, scale=1.0):
        state = {"a": state["a"] * 0.5 + x * scale, "b": state["b"] - x}
        return state["a"].sum(), state

    first = {"a": np.arange(6, dtype=np.float32), "b": np.ones(6, np.float32)}
    x = np.full(6, 2, np.float32)
    kept, donated = vkfuse.jit(step), vkfuse.jit(step, donate=0)
    expected, state = first, {name: vkfuse.array(one) for name, one in first.items()}
    for _ in range(4):
        loss, expected = kept(expected, x)
        before = state
        total, state = donated(state, x)
        assert all(one.donated for one in before.values()) and not any(one.donated for one in state.values())
        assert float(total.numpy()) == float(loss)
        for name, one in state.items():
            np.testing.assert_array_equal(one.numpy(), expected[name])
        with pytest.raises(vkfuse.InvalidArgument, match="donated"):
            donated(before, x)
    assert donated.cached == 1
    loss, after = donated(first, x, scale=3.0)  # arrays of NumPy stay what they are
    np.testing.assert_array_equal(first["a"], np.arange(6, dtype=np.float32))
    np.testing.assert_array_equal(after["a"], first["a"] * 0.5 + 6)
    given = vkfuse.array(x)
    total, state = donated(state, given)
    assert not given.donated
    for bad in (-1, "state", [0.5]):
        with pytest.raises(TypeError, match="donate"):
            vkfuse.jit(step, donate=bad)


def test_a_jitted_function_within_another_is_a_part_of_it():
    inner = vkfuse.jit(lambda a: a + 1)
    outer = vkfuse.jit(lambda a: inner(a * 2) * 3)
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(outer(x), np.full(4, 9))
    assert inner.cached == 0 and outer.compile(x).kernel_count == 1
    with pytest.raises(TypeError, match="arrays"):
        inner.compile(vkfuse.input("x", "float32", [4]))


def test_a_model_in_threads_and_in_a_notebook(model):
    from test_process import in_threads

    program = vkfuse.load(model)
    assert "<pre" in program._repr_html_() and "tiny" in program._repr_html_()
    w = np.arange(6, dtype=np.float32).reshape(3, 2)

    def work(i):
        x = np.full((i + 1, 3), i, np.float32)
        for _ in range(10):
            np.testing.assert_array_equal(program(x)["y"], x @ w)

    in_threads(work)

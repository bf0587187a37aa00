"""ONNX's own cases of nodes, through a host of vkfuse: ONNX Runtime with our provider, or this package.

    python node_cases.py onnxruntime|vkfuse [--every N] [--only TEXT] [--least PASSED] [--json FILE]

The cases are those of the installed package onnx, with its tolerances. A case is

    passed   ours computed every node, and the results are right
    wrong    ours computed, and a result is not right
    failed   the host took the model with all nodes for us, and a run ended with an error
    left     a node is not ours (the host says which), or the host itself does not take the model

and the exit status is 1 if one is wrong or failed, or fewer pass than `--least` says.
"""

import argparse
import collections
import ctypes
import json
import os
import sys
import tempfile
import warnings

import numpy as np

# Opsets that ONNX has not released yet are among its cases.
os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")

RELATIVE, ABSOLUTE = 1e-3, 1e-7  # of every case, by ONNX
# From 1 to the next number.
UNITS = {"float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7, "float8_e4m3fn": 0, "float8_e4m3fnuz": 0,
         "float8_e5m2": 0, "float8_e5m2fnuz": 0}


class Left(Exception):
    """The model is not ours to run."""


def cases(every=1, only=""):
    """Name, model and data sets of ONNX's cases, each data set a list of inputs and one of results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import node

        found = sorted(node.collect_testcases(None), key=lambda case: case.name)
    found = [case for case in found if only in case.name]
    return [(case.name, case.model, [tuple(map(arrays, data)) for data in case.data_sets])
            for case in found[::every]]


def arrays(values):
    """Tensors as arrays; what is no tensor stays as it is."""
    from onnx import TensorProto, numpy_helper

    def one(value):
        if isinstance(value, TensorProto):
            return numpy_helper.to_array(value)
        return np.asarray(value) if isinstance(value, np.generic) else value

    return [one(value) for value in values]


# Their results are numbers of NumPy's generator, or as random as those.
RANDOM = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}


def is_random(model):
    """Whether only the shapes of a model's results are stated."""
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    return any(node.op_type in RANDOM or node.op_type == "Dropout" and len(node.input) > 2 for node in nodes)


class OnnxRuntime:
    """ONNX Runtime, where every node has to be ours."""

    def __init__(self, library, options=None):
        import onnxruntime

        self.ort, self.options = onnxruntime, options or {}
        onnxruntime.set_default_logger_severity(4)
        try:
            onnxruntime.register_execution_provider_library("vkfuse", os.path.abspath(library))
        except Exception as error:  # registered by another test of this process
            if "already registered" not in str(error):
                raise
        self.devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "VkfuseExecutionProvider"]

    def session(self, model, alone=True, options=None, severity=4, keys=None):
        settings = self.ort.SessionOptions()
        for key, value in (keys or {}).items():
            settings.add_session_config_entry(key, value)
        settings.log_severity_level = severity
        settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")  # 1.23 knows no such entry
        if alone:
            settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        settings.add_provider_for_devices(self.devices, {**self.options, **(options or {})})
        session = self.ort.InferenceSession(model, settings)
        session.disable_fallback()  # without us run() would be right, too
        return session

    def assigned(self, session):
        """Operators by provider."""
        found = collections.defaultdict(list)
        for part in session.get_provider_graph_assignment_info():
            found[part.ep_name] += [node.op_type for node in part.get_nodes()]
        return found

    def load(self, model):
        with tempfile.TemporaryDirectory() as groups:
            try:
                session = self.session(model.SerializeToString(), options={"dump": groups})
            except Exception as error:
                raise Left(str(error)) from error
            is_ours = bool(os.listdir(groups))
        # ONNX Runtime 1.23 does not say who has which node, but that none is the processor's.
        if hasattr(session, "get_provider_graph_assignment_info"):
            is_ours = set(self.assigned(session)) == {"VkfuseExecutionProvider"}
        if not is_ours:
            raise Left("no node is ours")
        outputs = [output.name for output in session.get_outputs()]

        def run(inputs):
            return [self.array(value) for value in session.run_with_ort_values(outputs, self.values(inputs))]

        return run

    def values(self, inputs):
        """Arrays as ONNX Runtime's values, also of dtypes that NumPy does not have."""
        from onnx import helper

        make = self.ort.OrtValue.ortvalue_from_numpy_with_onnx_type
        self.alive = {name: np.asarray(array, order="C") for name, array in inputs.items()}

        def one(array):
            if array.dtype.type.__module__ == "numpy":
                return self.ort.OrtValue.ortvalue_from_numpy(array)
            return make(array.view(f"u{array.itemsize}"), helper.np_dtype_to_tensor_dtype(array.dtype))

        return {name: one(array) for name, array in self.alive.items()}

    @staticmethod
    def array(value):
        from onnx import helper

        dtype = helper.tensor_dtype_to_np_dtype(value.element_type())
        bytes = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if 0 not in value.shape() else b""
        return np.frombuffer(bytes, dtype).reshape(value.shape())


class Vkfuse:
    """This package."""

    def __init__(self, library=None):
        import vkfuse

        self.vkfuse = vkfuse

    def load(self, model):
        try:
            program = self.vkfuse.load(model)
        except self.vkfuse.Error as error:
            raise Left(str(error)) from error
        names = [output.name for output in model.graph.output]

        def run(inputs):
            try:
                results = program(**inputs)
            except self.vkfuse.Unsupported as error:
                if "while compiling" not in str(error):
                    raise
                raise Left(str(error)) from error  # the device has no such type: programs are compiled by a first run
            return [results[name] for name in names]

        return run


def same_kind(result, expected):
    return result.shape == expected.shape and result.dtype == expected.dtype


def agrees(result, expected):
    """Whether a result is what the case states, within ONNX's tolerances."""
    if not isinstance(expected, np.ndarray) or not same_kind(result, expected):
        return False
    if result.dtype.kind not in "biu":  # floats, those of ml_dtypes among them
        # A dtype that cannot say so much may be off by one unit of its last place, and what cancels by half a unit of
        # the largest element.
        unit = UNITS.get(result.dtype.name, 2.0**-23)
        result, expected = result.astype(np.float64), expected.astype(np.float64)
        largest = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
        return np.allclose(result, expected, max(RELATIVE, unit), max(ABSOLUTE, largest * unit / 2), equal_nan=True)
    return np.array_equal(result, expected)


def verdict(host, model, data_sets):
    """What became of a case, and one sentence about it."""
    try:
        run = host.load(model)
    except Left as error:
        return "left", str(error)
    names = [value.name for value in model.graph.input]
    for inputs, expected in data_sets:
        try:
            results = run({name: value for name, value in zip(names, inputs) if value is not None})
        except Left as error:
            return "left", str(error)
        except Exception as error:
            return "failed", str(error)
        agree = same_kind if is_random(model) else agrees
        for k, (result, stated) in enumerate(zip(results, expected, strict=True)):
            if not agree(result, stated):
                return "wrong", f"result {k}: {str(result)[:100]} in place of {str(stated)[:100]}"
    return "passed", ""


HOSTS = {"onnxruntime": OnnxRuntime, "vkfuse": Vkfuse}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host", choices=HOSTS)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--json")
    parser.add_argument("--library", help="the provider's library; the installed package's if it is left out")
    given = parser.parse_args()
    library = given.library
    if given.host == "onnxruntime" and library is None:
        import vkfuse.onnxruntime

        library = vkfuse.onnxruntime.library_path()
    host = HOSTS[given.host](library)
    rows = []
    for name, model, data_sets in cases(given.every, given.only):
        rows.append((name, *verdict(host, model, data_sets)))
        if rows[-1][1] in ("wrong", "failed"):
            print(*rows[-1], sep=": ", flush=True)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump([dict(zip(("name", "verdict", "detail"), row)) for row in rows], file, indent=1)
    count = collections.Counter(row[1] for row in rows)
    print(f"{len(rows)} cases: " + ", ".join(f"{count[kind]} {kind}" for kind in ("passed", "wrong", "failed", "left")))
    return 1 if count["wrong"] or count["failed"] or count["passed"] < given.least else 0


if __name__ == "__main__":
    sys.exit(main())

"""Models with data through ONNX Runtime with our provider, beside ONNX Runtime's own for processors.

    python model_cases.py [--library FILE] [--json FILE] MODEL...

A MODEL is a folder as ONNX lays cases out (model.onnx, test_data_set_*/input_*.pb), or a file, with random inputs.
Of each: how many nodes are ours, in how many groups, and how far results are from ONNX Runtime's, as a part of the
largest element. The exit status is 1 if a run fails, or a result is further away than rounding takes it: a thousandth,
or a twentieth where the model quantises what it computes, as one element may take the next step. Of random results the
shapes are compared; a model that ONNX Runtime's own provider does not take is compared with nothing.
"""

import argparse
import glob
import json
import os
import sys
import time

import node_cases
import numpy as np

RANDOM = node_cases.RANDOM | {"Dropout"}
QUANTISE = {"DynamicQuantizeLinear", "QuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"}


def read(path):
    import onnx

    with open(path, "rb") as file:
        return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))


def random_inputs(session, rng):
    types = {"float": "float32", "double": "float64"}
    inputs = {}
    for value in session.get_inputs():
        name = value.type.removeprefix("tensor(").removesuffix(")")
        sizes = [size if isinstance(size, int) and size >= 0 else 4 for size in value.shape]
        dtype = np.dtype(types.get(name, name))
        small = rng.integers(0, 2, sizes) if dtype.kind in "biu" else rng.standard_normal(sizes)
        inputs[value.name] = small.astype(dtype)
    return inputs


def data_sets(model, session):
    if os.path.isfile(model):
        return [random_inputs(session, np.random.default_rng(1))]
    names = [value.name for value in session.get_inputs()]
    sets = sorted(glob.glob(os.path.join(model, "test_data_set_*")))
    return [{name: read(os.path.join(folder, f"input_{i}.pb")) for i, name in enumerate(names)} for folder in sets]


def distance(result, expected):
    """As a part of the largest element; infinite where shapes, dtypes or NaNs differ."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return np.inf
    if result.dtype.kind in "OU":
        return 0 if np.array_equal(result, expected) else np.inf
    result, expected = result.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(result[~finite], expected[~finite], equal_nan=True):
        return np.inf
    largest = np.max(np.abs(expected), initial=0, where=finite)
    # What is smaller than any input's rounding is zero.
    return float(np.max(np.abs(result - expected), initial=0, where=finite) / max(largest, 1e-5))


def run(host, model):
    """What became of a model."""
    path = model if os.path.isfile(model) else os.path.join(model, "model.onnx")
    begin = time.perf_counter()
    session = host.session(path, alone=False)
    load = time.perf_counter() - begin
    parts = session.get_provider_graph_assignment_info()
    assigned = host.assigned(session)
    ours = len(assigned["VkfuseExecutionProvider"])
    row = {"name": os.path.basename(model), "ours": ours, "nodes": sum(map(len, assigned.values())),
           "groups": sum(part.ep_name == "VkfuseExecutionProvider" for part in parts), "load_s": round(load, 2)}
    row["others"] = sorted({op for name, ops in assigned.items() for op in ops if name != "VkfuseExecutionProvider"})
    operators = {op for ops in assigned.values() for op in ops}
    row["allowed"] = 0.05 if operators & QUANTISE else np.inf if operators & RANDOM else 1e-3
    row["distance"] = 0.0
    for inputs in data_sets(model, session):
        try:
            plain = host.ort.InferenceSession(path, providers=["CPUExecutionProvider"])
            expected = plain.run(None, inputs)
        except Exception as error:
            row["compared"] = str(error)
            continue
        for result, stated in zip(session.run(None, inputs), expected, strict=True):
            row["distance"] = max(row["distance"], distance(np.asarray(result), np.asarray(stated)))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--library")
    parser.add_argument("--json")
    given = parser.parse_args()
    library = given.library
    if library is None:
        import vkfuse.onnxruntime

        library = vkfuse.onnxruntime.library_path()
    host = node_cases.OnnxRuntime(library)
    rows, bad, taken_well = [], 0, 0
    for model in given.models:
        try:
            row = run(host, model)
        except Exception as error:
            row = {"name": os.path.basename(model), "error": str(error)[-400:]}
        rows.append(row)
        if "error" in row:
            bad += 1
            print(f"{row['name']}: {row['error']}", flush=True)
            continue
        wrong = row["distance"] > row["allowed"]
        bad += wrong
        taken_well += row["ours"] >= 0.95 * row["nodes"] and row["groups"] <= 2
        off = "not compared" if "compared" in row else f"off by {row['distance']:.2g}"
        print(f"{row['name']}: {row['ours']} of {row['nodes']} nodes in {row['groups']} groups, {off}"
              f"{' WRONG' if wrong else ''}, loaded in {row['load_s']} s {row['others']}", flush=True)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    print(f"{len(rows)} models: {bad} bad, {taken_well} with 95 % of their nodes in two groups at most.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""scripts/compare-models.py with programs made here in place of vkfuse and torch: what is measured, what is kept and
what the table says.
usage: compare_models_test.py"""

import importlib.util
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "compare-models.py"
spec = importlib.util.spec_from_file_location("compare_models", SCRIPT)
compare_models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare_models)

# Both write down that they were called. 'broken' has no file, and 'strange' has one that the command refuses.
VKFUSE = """\
    #!/bin/sh
    echo "vkfuse $*" >> "$(dirname "$0")/calls"
    case $2 in *strange*) echo "vkfuse: The model has cycles." >&2; exit 2;; esac
    echo "fast on A device, of one kind: 12 kernels"
    echo "  segment 0     3.00    100.0%"
    echo "One replay of the program: 50.00 device us"
    """
PYTHON = """\
    #!/bin/sh
    echo "python $*" >> "$(dirname "$0")/calls"
    case $2 in
      --time-torch) case $4 in slow) sleep 20;; esac
        echo "a line of a compiler"; echo "{\\"name\\": \\"$4\\", \\"reduce_overhead_us\\": 40.0}";;
      *) echo "{\\"name\\": \\"$3\\", \\"eager_us\\": 90.0, \\"compile_us\\": 45.0}"
        case $3 in broken) echo "broken FAILED no such module";; *) echo model > "$2/$3.onnx";; esac;;
    esac
    """
EXPORTER = """\
    import sys
    out = sys.argv[1]; names = sys.argv[2].split(",")
    scale = 3
    def build(name): return name * scale
    for name in names: raise SystemExit("The loop ran.")
    """


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        for name, text in (("vkfuse", VKFUSE), ("python", PYTHON), ("export.py", EXPORTER)):
            (self.path / name).write_text(textwrap.dedent(text))
            (self.path / name).chmod(0o755)
        self.out = self.path / "out.json"

    def tearDown(self):
        self.folder.cleanup()

    def call(self, models, *options):
        command = [sys.executable, "-B", str(SCRIPT), "--models", models, "--python", str(self.path / "python")]
        command += [*options, str(self.path / "vkfuse"), str(self.path / "export.py"), str(self.out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.text = done.stdout + done.stderr
        return done.returncode

    def calls(self):
        calls = self.path / "calls"
        return calls.read_text().splitlines() if calls.is_file() else []

    def models(self):
        return json.loads(self.out.read_text())["models"]

    def test_a_model_is_measured_in_three_steps_and_the_faster_mode_counts(self):
        self.assertEqual(self.call("fast"), 0, self.text)
        self.assertEqual(len(self.calls()), 3)
        entry = self.models()["fast"]
        self.assertEqual((entry["replay_us"], entry["compile_us"], entry["reduce_overhead_us"]), (50, 45, 40))
        self.assertEqual(entry["device"], "A device, of one kind")
        self.assertIn("| fast | 50 | 40 | reduce-overhead | 0.80 | 0.80 |", self.text)

    def test_what_is_known_is_not_measured_again_and_a_lost_file_is_written_again(self):
        self.assertEqual(self.call("fast", "--budget", "-1"), 3, self.text)
        self.assertEqual(self.calls(), [])
        self.assertEqual(self.call("fast"), 0, self.text)
        self.assertEqual(self.call("fast,other"), 0, self.text)
        self.assertEqual(sum("fast" in call for call in self.calls()), 3)
        report = json.loads(self.out.read_text())
        report["models"]["fast"]["done"].remove("replay")
        self.out.write_text(json.dumps(report))
        (self.path / "fast.onnx").unlink()
        self.assertEqual(self.call("fast"), 0, self.text)
        self.assertEqual([call.split()[0] for call in self.calls() if "fast" in call][3:], ["python", "vkfuse"])

    def test_one_that_fails_does_not_stop_the_others_and_is_tried_again(self):
        start = time.monotonic()
        self.assertEqual(self.call("broken,strange,slow,fast", "--limit", "3"), 1, self.text)
        self.assertLess(time.monotonic() - start, 15, "What a step started is waited for.")
        models = self.models()
        self.assertIn("FAILED no such module", models["broken"]["failed"]["export"])
        self.assertNotIn("replay", models["broken"]["done"])
        self.assertIn("The model has cycles.", models["strange"]["failed"]["replay"])
        self.assertIn("more than 3 s", models["slow"]["failed"]["reduce_overhead"])
        self.assertIn("| slow | 50 | 45 | default | 0.90 | 0.90 |", self.text)
        self.assertEqual(models["fast"]["failed"], {})
        calls = len(self.calls())
        self.assertEqual(self.call("strange"), 1, self.text)
        self.assertEqual(len(self.calls()), calls + 1)

    def test_the_table_of_a_file_alone_measures_nothing(self):
        entries = {"a": {"replay_us": 100, "compile_us": 50}, "b": {"replay_us": 50, "compile_us": 200}, "c": {}}
        self.out.write_text(json.dumps({"models": entries, "summary": compare_models.summary_of(entries)}))
        self.assertEqual(self.call("a", "--table"), 0, self.text)
        self.assertEqual(self.calls(), [])
        self.assertIn("| b | 50 | 200 | default | 4.00 | 1.10 |", self.text)
        self.assertIn("| c | - | - | - | - | - |", self.text)
        summary = "2 models: geometric mean 0.742 with ratios up to 1.1, 1.414 as they are; the least is 0.50."
        self.assertIn(summary, self.text)

    def test_a_file_that_is_none_is_refused(self):
        self.out.write_text("[]")
        self.assertNotEqual(self.call("fast"), 0)
        self.assertIn("is no report of this script", self.text)


class Parts(unittest.TestCase):
    def test_the_exporters_function_is_had_without_its_loop(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "export.py"
            path.write_text(textwrap.dedent(EXPORTER))
            self.assertEqual(compare_models.build_function(path)("ab"), "ababab")

    def test_ratios_are_capped_before_their_mean(self):
        entries = {"a": {"replay_us": 10, "compile_us": 20}, "b": {"replay_us": 10, "compile_us": 5}}
        summary = compare_models.summary_of(entries)
        self.assertAlmostEqual(summary["geometric_mean_capped"], math.sqrt(1.1 * 0.5))
        self.assertAlmostEqual(summary["geometric_mean"], 1)
        self.assertEqual(compare_models.summary_of({"a": {"compile_us": 20}}), {})

    def test_lines_that_are_no_objects_are_passed_over(self):
        self.assertEqual(compare_models.json_lines('{"a": 1}\n{broken\n[2]\ntext\n{"b": 2}'), [{"a": 1}, {"b": 2}])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""scripts/scoreboard.py on folders made here: what is drawn, what is left out and with which words.
usage: scoreboard_test.py"""

import copy
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "scoreboard.py"
sys.path.insert(0, str(SCRIPT.parent))
from scoreboard import Board  # noqa: E402

MEMORY_ROW = {
    "case": "textbook:f32:4096",
    "name": "textbook f32",
    "group": "chain",
    "dtype": "f32",
    "outcome": "measured",
    "limit": "memory",
    "us": 10.0,
    "p10": 9.5,
    "p90": 10.5,
    "n": 41,
    "bytes": 8 << 20,
    "operations": 1e6,
    "copy_gb_s": 800.0,
    "copy_percent": 81.0,
    "peak_percent": 2.0,
    "peak_of": "fma f32",
    "gain_over_framework": 3.0,
    "gain_over_unfused": 3.5,
}
MATMUL_ROW = {
    **MEMORY_ROW,
    "case": "matmul_1024:f16:1024x1024x1024",
    "name": "matmul 1024 f16",
    "group": "matmul",
    "limit": "arithmetic",
    "copy_percent": 11.0,
    "peak_percent": 64.0,
    "peak_of": "matrix f16",
}
PEAKS = [
    {
        "case": "peak fma f32",
        "name": "peak fma f32",
        "group": "peak",
        "dtype": "f32",
        "instruction": "fma f32",
        "outcome": "measured",
        "us": 100.0,
        "gops": 61234.0,
    },
    {
        "case": "peak dot i8x4",
        "name": "peak dot i8x4",
        "group": "peak",
        "dtype": "i8",
        "instruction": "dot i8x4",
        "outcome": "skipped",
        "detail": "The device multiplies no four bytes at once.",
    },
]


def run_of(device="Device One", rows=(MEMORY_ROW, MATMUL_ROW), **more):
    run = {
        "device": {"name": device, "type": "discrete", "api": "1.3.0"},
        "driver": {"text": "driver 1.2"},
        "vkfuse": "0.2.0",
        "suite": "quick",
        "build": {"commit": "0123456789ab", "compiler": "g++ 12"},
        "sensors_before": {"time": "2026-11-25T10:00:00Z", "watts": None},
        "flags": {"disable": ["T4"]},
        "rows": copy.deepcopy(list(rows)),
        "peaks": copy.deepcopy(PEAKS),
    }
    run.update(more)
    return run


def submission(*runs):
    return {"format": "vkfuse-bench submission", "version": 1, "runs": list(runs)}


def report(rows, device="An old device"):
    about = {"device": device, "driver": "driver 0.9", "suite": "full", "type": "discrete", "vkfuse": "0.1.0"}
    return {"environment": about, "rows": rows}


class Structure(html.parser.HTMLParser):
    """Elements that are closed as they should be, their classes, ids and attributes, and the text."""

    VOID = ("meta", "input", "line", "br")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes something else")

    def handle_data(self, text):
        if not self.open or self.open[-1] != "style":
            self.text.append(text)


class ScoreboardTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "in").mkdir()

    def write(self, name, value):
        text = value if isinstance(value, str) else json.dumps(value)
        (self.path / "in" / name).write_text(text, "utf-8")

    def draw(self, *more):
        """The exit status, what was said, and the pages by name."""
        out = self.path / "out"
        done = subprocess.run(
            [sys.executable, SCRIPT, self.path / "in", out, *more], capture_output=True, text=True, check=False
        )
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stderr, {page.name: page.read_text("utf-8") for page in out.glob("*.html")}

    def structure(self, page):
        one = Structure()
        one.feed(page)
        one.close()
        self.assertEqual(one.open, [])
        return one

    def test_shares_of_copy_and_peak_and_gains_are_on_the_board(self):
        self.write("a.json", submission(run_of()))
        status, said, pages = self.draw()
        self.assertEqual((status, said), (0, ""))
        self.assertEqual(sorted(pages), ["device-one.html", "index.html"])
        index = "".join(self.structure(pages["index.html"]).text)
        for text in ("81 %", "64 %", "3.00x", "61.2 T", "Device One", "driver 1.2", "0123456789ab", "2026-11-25"):
            self.assertIn(text, index)
        # A row that arithmetic bounds is no row of copies, nor the other way round.
        self.assertNotIn("11 %", index)
        self.assertNotIn("2.0 %", index)
        device = "".join(self.structure(pages["device-one.html"]).text)
        for text in ("11 %", "2.0 %", "matrix f16", "9.50 to 10.5", "The device multiplies no four bytes at once."):
            self.assertIn(text, device)
        self.assertIn("vkfuse-bench --case textbook:f32:4096 --disable T4", device)

    def test_means_are_geometric(self):
        rows = [{**MEMORY_ROW, "case": f"c{share}", "copy_percent": share} for share in (20.0, 80.0)]
        self.write("a.json", submission(run_of(rows=rows)))
        index = "".join(self.structure(self.draw()[2]["index.html"]).text)
        self.assertIn("40 %", index)
        self.assertNotIn("50 %", index)

    def test_pages_ask_nobody_for_anything(self):
        self.write("a.json", submission(run_of()))
        for page in self.draw()[2].values():
            one = self.structure(page)
            self.assertNotIn("script", one.tags)
            self.assertNotIn("link", one.tags)
            for name, value in one.attributes:
                self.assertFalse(name.startswith("on") or name == "src", name)
                if name == "href":
                    self.assertTrue(re.fullmatch(r"[a-z0-9-]+\.html", value), value)
            for outside in ("url(", "@import", "http:", "https:"):
                self.assertNotIn(outside, page)

    def test_names_and_texts_are_escaped_everywhere(self):
        evil = "<script>alert('1')</script>\"><img src=x onerror=a>&"
        row = {**MEMORY_ROW, "case": evil, "name": evil, "peak_of": evil, "group": evil}
        wrong = {**MEMORY_ROW, "case": evil + "2", "outcome": "wrong", "detail": evil}
        peaks = [{**PEAKS[0], "instruction": evil}, {**PEAKS[1], "detail": evil}]
        run = run_of(evil, [row, MEMORY_ROW, MATMUL_ROW, wrong], peaks=peaks, vkfuse=evil, suite=evil)
        run["driver"]["text"] = run["device"]["api"] = run["build"]["commit"] = evil
        run["host"] = {"processor": evil}
        run["shaderc"] = {"version": evil}
        run["flags"] = {"filter": evil, "disable": [evil]}
        run["device"]["type"] = evil
        self.write(f"{evil.replace('/', '')[:40]}.json", submission(run))
        self.write("<b>bold.json", "{")
        status, _, pages = self.draw("--title", evil)
        self.assertEqual(status, 1)
        for name, page in pages.items():
            self.assertRegex(name, r"^[a-z0-9-]+\.html$")
            one = self.structure(page)
            for tag in ("script", "img", "b>bold"):
                self.assertNotIn(tag, one.tags)
            self.assertNotIn("onerror", [key for key, _ in one.attributes])
            self.assertIn(evil, "".join(one.text))

    def test_one_line_for_a_device_of_several_files_and_all_its_runs_on_its_page(self):
        few = run_of(rows=[{**MEMORY_ROW, "copy_percent": 33.0}])
        self.write("few.json", submission(few))
        self.write("old.json", submission(run_of(sensors_before={"time": "2026-01-01T00:00:00Z"})))
        rows = [{**MEMORY_ROW, "copy_percent": 92.0}, MATMUL_ROW]
        self.write("new.json", submission(run_of(rows=rows, sensors_before={"time": "2026-12-24T00:00:00Z"})))
        status, _, pages = self.draw()
        self.assertEqual(status, 0)
        self.assertEqual(sorted(pages), ["device-one.html", "index.html"])
        index = "".join(self.structure(pages["index.html"]).text)
        self.assertIn("1 device,", index)
        self.assertIn("92 %", index)
        self.assertNotIn("33 %", index)
        device = "".join(self.structure(pages["device-one.html"]).text)
        for text in ("few.json", "old.json", "new.json (shown above)", "33 %"):
            self.assertIn(text, device)

    def test_two_devices_never_share_a_page(self):
        self.write("a.json", submission(run_of("A (x)"), run_of("A  x"), run_of("index"), run_of("日本")))
        status, _, pages = self.draw()
        self.assertEqual(status, 0)
        self.assertEqual(sorted(pages), ["a-x-2.html", "a-x.html", "device.html", "index-2.html", "index.html"])

    def test_software_drivers_are_marked_and_last(self):
        software = run_of("llvmpipe")
        software["device"]["type"] = "cpu"
        software["rows"][0]["copy_percent"] = 99.0
        self.write("a.json", submission(software, run_of("Hardware")))
        index = self.draw()[2]["index.html"]
        self.assertIn("1 of them software", index)
        self.assertRegex(index, r'llvmpipe</a> <span class="badge software">software</span>')
        self.assertLess(index.index("Hardware</a>"), index.index("llvmpipe</a>"))

    def test_a_column_sorts_by_its_figures_with_nothing_last(self):
        devices = {"B": 30.0, "A": 90.0, "C": None}
        for name, share in devices.items():
            row = {**MEMORY_ROW, "copy_percent": share} if share else MATMUL_ROW
            self.write(f"{name}.json", submission(run_of(name, [row])))
        index = self.draw()[2]["index.html"]
        board = index[index.index("share of the device&#x27;s own copy") :]
        board = board[: board.index("</section>")]
        line = r'<div class="line" style="([^"]*)"><div class="device"><a[^>]*>(.)</a>'
        places = {
            name: [int(place) for place in re.findall(r"--o\d+:(\d+)", style)]
            for style, name in re.findall(line, board)
        }
        self.assertEqual({name: place[0] for name, place in places.items()}, {"A": 0, "B": 1, "C": 2})
        self.assertEqual({name: place[1] for name, place in places.items()}, {"A": 0, "B": 1, "C": 2})
        self.assertIn("#copy-1:checked ~ .scroll .line:not(.head) { order: var(--o1); }", board)

    def test_texts_sort_from_a_on_and_what_is_missing_comes_last(self):
        board = Board("b", [("head", "")], [(1, 1)])
        for key in (None, "b", "a"):
            board.add([], [key])
        self.assertEqual(board.ranks(0), {2: 0, 1: 1, 0: 2})

    def test_reports_of_before_there_were_cases_and_peaks_are_read(self):
        row = {"name": "textbook f32", "size": "[4096]", "group": "chain", "fused_us": 10.0, "copy_percent": 77.0}
        matmul = {**row, "name": "matmul", "group": "matmul", "copy_percent": 5.0}
        self.write("old.json", report([row, matmul]))
        status, said, pages = self.draw()
        self.assertEqual((status, said), (0, ""))
        index = "".join(self.structure(pages["index.html"]).text)
        self.assertIn("77 %", index)
        self.assertNotIn("5.0 %", index)
        device = "".join(self.structure(pages["an-old-device.html"]).text)
        self.assertIn("textbook f32 [4096]", device)
        self.assertIn("--filter '^textbook f32$'", device)
        self.assertIn("This run has measured none", device)

    def test_what_has_no_times_is_left_out_and_is_no_fault(self):
        self.write("good.json", submission(run_of()))
        self.write("sweep.json", {"environment": {"device": "d"}, "sweep": []})
        self.write("planners.json", report([{"name": "a", "case": "a", "outcome": "measured", "planners": []}]))
        self.write("other.json", {"models": []})
        status, said, pages = self.draw()
        self.assertEqual(status, 0)
        for name in ("sweep.json", "planners.json", "other.json"):
            self.assertEqual(len([line for line in said.splitlines() if name in line]), 1, said)
            self.assertIn(name, pages["index.html"])

    def test_what_is_malformed_is_a_sentence_that_names_file_and_value(self):
        self.write("good.json", submission(run_of()))
        broken = {
            "text.json": ("{", "no JSON"),
            "nan.json": ('{"format": "vkfuse-bench submission", "version": NaN}', "NaN is no number of JSON"),
            "deep.json": ("[" * 100000, "no JSON"),
            "list.json": ([1], "no object"),
            "version.json": ({**submission(run_of()), "version": 7}, "version 7"),
            "runs.json": ({**submission(), "runs": 3}, "no list"),
            "nameless.json": (submission(run_of(device="")), "no name"),
            "device.json": (submission({**run_of(), "device": []}), "no object"),
            "time.json": (submission(run_of(rows=[{**MEMORY_ROW, "us": -1}])), "-1"),
            "zero.json": (submission(run_of(rows=[{**MEMORY_ROW, "us": 0}])), "is 0"),
            "timeless.json": (submission(run_of(rows=[{**MEMORY_ROW, "us": None}])), "no time"),
            "share.json": (submission(run_of(rows=[{**MEMORY_ROW, "copy_percent": "all"}])), '"all"'),
            "huge.json": (submission(run_of(rows=[{**MEMORY_ROW, "copy_percent": 1e300}])), "1e+300"),
            "outcome.json": (submission(run_of(rows=[{**MEMORY_ROW, "outcome": "great"}])), "'great'"),
            "limit.json": (submission(run_of(rows=[{**MEMORY_ROW, "limit": "sky"}])), "'sky'"),
            "long.json": (submission(run_of(device="x" * 5000)), "no text"),
            "large.json": (submission(run_of(suite="x" * 3000, more=["y" * 200] * 1000)), "200000"),
            "peak.json": (submission(run_of(peaks=[{**PEAKS[0], "gops": 0}])), "is 0"),
        }
        for name, (value, _) in broken.items():
            self.write(name, value)
        status, said, pages = self.draw()
        self.assertEqual(status, 1)
        self.assertIn("1 device,", pages["index.html"])
        for name, (_, words) in broken.items():
            lines = [line for line in said.splitlines() if f"'{name}'" in line]
            self.assertEqual(len(lines), 1, f"{name}: {said}")
            self.assertIn(words, lines[0], name)
            self.assertTrue(lines[0].endswith("."), lines[0])

    def test_fields_that_are_missing_are_left_empty(self):
        row = {key: MEMORY_ROW[key] for key in ("case", "name", "outcome", "us")}
        run = {"device": {"name": "bare"}, "rows": [row]}
        self.write("a.json", submission(run))
        status, said, pages = self.draw()
        self.assertEqual((status, said), (0, ""))
        for page in pages.values():
            text = "".join(self.structure(page).text)
            self.assertNotRegex(text, r"None|nan|null")
            self.assertIn("bare", text)

    def test_a_wrong_row_is_shown_and_has_no_time(self):
        wrong = {**MEMORY_ROW, "case": "softmax:f32:8x8", "outcome": "wrong", "detail": "Element 3 is 4."}
        del wrong["us"]
        self.write("a.json", submission(run_of(rows=[MEMORY_ROW, wrong])))
        pages = self.draw()[2]
        self.assertIn("wrong: Element 3 is 4.", pages["device-one.html"])
        self.assertIn("1 wrong", pages["index.html"])

    def test_a_folder_without_runs_is_an_error(self):
        status, said, pages = self.draw()
        self.assertEqual((status, pages), (2, {}))
        self.assertIn("holds no run with times", said)

    def test_the_results_of_this_repository_are_drawn(self):
        out = self.path / "out"
        done = subprocess.run(
            [sys.executable, SCRIPT, ROOT / "bench" / "results", out], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("index.html", "nvidia-h200.html", "swiftshader-device-subzero.html"):
            page = (out / name).read_text("utf-8")
            self.structure(page)
            self.assertLess(len(page), 400_000)
        self.assertIn("NVIDIA H200", (out / "index.html").read_text("utf-8"))


if __name__ == "__main__":
    unittest.main()

"""Reads what vkfuse-bench has measured, reports and submissions alike, and checks it: files are from strangers."""

import json
import math

MOST_SUBMISSION_BYTES = 200_000
MOST_REPORT_BYTES = 64 << 20
MOST_TEXT = 4000
OUTCOMES = ("measured", "checked", "wrong", "skipped", "failed")
# Of reports from before rows said what bounds them.
ARITHMETIC_GROUPS = ("matmul", "attention", "conv", "limit")
LAUNCH_BYTES = 1 << 20


class Malformed(Exception):
    """One sentence that names the file."""


class NoTimes(Exception):
    """The same, of a file that is as it should be and has nothing for a scoreboard."""


def geometric_mean(values):
    """None of nothing."""
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


class Reader:
    """Takes values out of an object, or says in one sentence why it cannot."""

    def __init__(self, file, where, values):
        self.file, self.where, self.values = file, where, values
        if not isinstance(values, dict):
            self.refuse(f"{where} is no object")

    def refuse(self, what):
        raise Malformed(f"The file '{self.file}' is left out: {what}.")

    def text(self, key, default=None):
        value = self.values.get(key)
        if value is None:
            if default is None:
                self.refuse(f"{self.where} lacks '{key}'")
            return default
        if not isinstance(value, str) or len(value) > MOST_TEXT:
            self.refuse(f"'{key}' of {self.where} is no text of at most {MOST_TEXT} letters")
        # Letters that a terminal or a page would take for something else.
        return "".join(letter if letter.isprintable() else " " for letter in value).strip()

    def number(self, key, least=0.0):
        """None where there is none; a time or a share is more than 0."""
        value = self.values.get(key)
        if value is None:
            return None
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < least or abs(value) > 1e30:
            self.refuse(f"'{key}' of {self.where} is {json.dumps(value)[:60]}, which is no number that can be measured")
        return float(value)

    def part(self, key):
        """An object inside; empty where there is none."""
        value = self.values.get(key)
        return Reader(self.file, f"'{key}' of {self.where}", {} if value is None else value)

    def items(self, key):
        value = self.values.get(key)
        if value is not None and not isinstance(value, list):
            self.refuse(f"'{key}' of {self.where} is no list")
        return [Reader(self.file, f"'{key}' {index} of {self.where}", one) for index, one in enumerate(value or [])]


def positive(reader, key):
    """A number that is more than 0, as every time, share and gain is."""
    value = reader.number(key)
    if value == 0:
        reader.refuse(f"'{key}' of {reader.where} is 0")
    return value


class Row:
    """One row of a run."""

    def __init__(self, reader, times):
        self.name = reader.text("name")
        size = reader.text("size", "")
        self.case = reader.text("case", f"{self.name} {size}".strip())
        self.group = reader.text("group", "chain")
        # The first reports held nothing but rows with times.
        self.outcome = reader.text("outcome", "measured")
        if self.outcome not in OUTCOMES:
            reader.refuse(f"the outcome of {reader.where} is '{self.outcome}'")
        self.detail = reader.text("detail", "").split("\n", maxsplit=1)[0]
        timed = self.outcome == "measured"
        self.us = positive(reader, f"{times}us") if timed else None
        if timed and self.us is None:
            reader.refuse(f"{reader.where} was measured and has no time")
        self.p10, self.p90 = reader.number(f"{times}p10"), reader.number(f"{times}p90")
        self.bytes, self.operations = reader.number("bytes"), reader.number("operations")
        self.copy_gb_s = positive(reader, "copy_gb_s")
        self.copy_percent = positive(reader, "copy_percent")
        self.peak_percent, self.peak_of = reader.number("peak_percent"), reader.text("peak_of", "")
        if self.peak_percent == 0:
            self.peak_percent = None  # a row that computes nothing
        self.gain_over_framework = positive(reader, "gain_over_framework")
        self.gain_over_unfused = positive(reader, "gain_over_unfused")
        self.limit = reader.text("limit", "") or self.limit_by_group()
        if self.limit not in ("memory", "arithmetic", "launch"):
            reader.refuse(f"the limit of {reader.where} is '{self.limit}'")

    def limit_by_group(self):
        if self.group in ARITHMETIC_GROUPS:
            return "arithmetic"
        return "launch" if self.bytes is not None and self.bytes < LAUNCH_BYTES else "memory"


def number_text(reader, key, unit):
    value = reader.number(key)
    return f"{value:g} {unit}" if value is not None else ""


def sensors_text(reader):
    """Before and after, as far as they were read."""
    parts = []
    for key in ("sensors_before", "sensors_after"):
        one = reader.part(key)
        texts = [
            number_text(one, "core_mhz", "MHz"),
            number_text(one, "memory_mhz", "MHz memory"),
            number_text(one, "watts", "W"),
            number_text(one, "celsius", "°C"),
        ]
        text = ", ".join(filter(None, texts))
        if text:
            parts.append(f"{key.removeprefix('sensors_')}: {text}")
    return "; ".join(parts)


def shaderc_text(reader):
    parts = [reader.text("version", "")]
    for key in ("cooperative_matrix", "cooperative_matrix2", "bfloat16"):
        if isinstance(reader.values.get(key), bool):
            parts.append(f"{key.replace('_', ' ')}: {'yes' if reader.values[key] else 'no'}")
    return ", ".join(filter(None, parts))


def host_text(reader):
    threads = reader.number("threads")
    return ", ".join(filter(None, [reader.text("processor", ""), f"{threads:g} threads" if threads else ""]))


class Run:
    """A device in one file."""

    def __init__(self, file, about, measured, names):
        """`names`: of the keys of device and driver, which reports and submissions have in different places."""
        self.file = file
        device, driver = names["device_part"], names["driver_part"]
        self.device = device.text(names["device"]) or device.refuse("its device has no name")
        self.type = device.text("type", "other")
        self.api = device.text("api", "")
        self.driver = driver.text(names["driver"], "")
        self.vkfuse, self.suite = about.text("vkfuse", ""), about.text("suite", "")
        build = about.part("build")
        self.commit = build.text("commit", "")[:40]
        flags = build.text("flags", "")
        self.compiler = ", ".join(filter(None, [build.text("compiler", about.text("compiler", "")), flags]))
        self.shaderc, self.host = shaderc_text(about.part("shaderc")), host_text(about.part("host"))
        self.sensors = sensors_text(about)
        self.time = about.part("sensors_before").text("time", "")
        self.day = self.time[:10]
        self.read_flags(about.part("flags"))
        self.rows = [Row(row, names["row_times"]) for row in measured.items("rows")]
        self.read_peaks(measured.items("peaks"))
        self.timed = [row for row in self.rows if row.us is not None]
        self.wrong = [row for row in self.rows if row.outcome == "wrong"]
        speeds = sorted(row.copy_gb_s for row in self.timed if row.copy_gb_s and row.limit == "memory")
        # The 90th of 100: the largest ones may have been helped by a cache.
        self.copy_gb_s = speeds[int(0.9 * (len(speeds) - 1))] if speeds else None

    def of(self, group):
        return [row for row in self.timed if row.group == group]

    def read_peaks(self, peaks):
        self.peaks, self.peaks_missing = {}, {}
        for peak in peaks:
            name = peak.text("instruction")
            if peak.text("outcome") == "measured":
                self.peaks[name] = positive(peak, "gops") or peak.refuse(f"the peak '{name}' has no 'gops'")
            else:
                self.peaks_missing[name] = f"{peak.text('outcome')}: {peak.text('detail', '')}"

    def read_flags(self, flags):
        """What the program was asked for, as a command."""
        self.options = []
        for key, option in (("disable", "--disable"), ("limits", "--limit")):
            values = flags.values.get(key) or []
            if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
                flags.refuse(f"'{key}' of {flags.where} is no list of texts")
            self.options += [f"{option} {value}" for value in values]
        suite = ["--suite full"] if self.suite == "full" else []
        chosen = [f"--filter '{flags.text('filter', '')}'"] if flags.text("filter", "") else []
        self.command = " ".join(["vkfuse-bench", *suite, *chosen, *self.options, "--json result.json"])

    def command_of(self, row):
        """The command that measures a row alone: reports from before rows had cases name it."""
        suite = ["--suite full"] if self.suite == "full" else []
        which = f"--case {row.case}" if ":" in row.case else f"--filter '^{row.name}$'"
        return " ".join(["vkfuse-bench", *suite, which, *self.options])


def runs_of_submission(file, whole):
    if whole.values.get("version") != 1:
        whole.refuse(f"it is a submission of version {json.dumps(whole.values.get('version'))[:20]}, and 1 is read")
    for run in whole.items("runs"):
        parts = {"device_part": run.part("device"), "driver_part": run.part("driver")}
        yield Run(file, run, run, {**parts, "device": "name", "driver": "text", "row_times": ""})


def runs_of_report(file, whole):
    for one in whole.items("devices") if "devices" in whole.values else [whole]:
        about = one.part("environment")
        names = {"device_part": about, "driver_part": about, "device": "device", "driver": "driver"}
        if all(isinstance(row, dict) and "planners" in row for row in one.values.get("rows") or []):
            raise NoTimes(f"The file '{file}' is left out: it has no row that was timed.")
        yield Run(file, about, one, {**names, "row_times": "fused_"})


def parsed(path):
    def no_number(name):
        raise ValueError(f"{name} is no number of JSON")

    try:
        size = path.stat().st_size
        if size > MOST_REPORT_BYTES:
            what = f"it has {size} bytes, and {MOST_REPORT_BYTES} are the most"
            raise Malformed(f"The file '{path.name}' is left out: {what}.")
        return json.loads(path.read_text("utf-8"), parse_constant=no_number), size
    except OSError as error:
        raise Malformed(f"The file '{path.name}' is left out: it cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise Malformed(f"The file '{path.name}' is left out: it is no JSON ({error}).") from error


def read_runs(path):
    """The runs of a file, one for each device. Raises Malformed or NoTimes."""
    values, size = parsed(path)
    whole = Reader(path.name, "the file", values)
    submission = values.get("format") == "vkfuse-bench submission"
    if submission and size > MOST_SUBMISSION_BYTES:
        whole.refuse(f"it is a submission of {size} bytes, and {MOST_SUBMISSION_BYTES} are the most")
    if not submission and "environment" not in values and "devices" not in values:
        raise NoTimes(f"The file '{path.name}' is left out: it is neither a submission nor a report.")
    runs = list(runs_of_submission(path.name, whole) if submission else runs_of_report(path.name, whole))
    timed = [run for run in runs if run.timed or run.wrong]
    if not timed:
        raise NoTimes(f"The file '{path.name}' is left out: it has no row that was timed.")
    return timed

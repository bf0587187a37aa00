#!/usr/bin/env python3
"""Runs the command on files that were changed at random: no signal, no uncaught exception, none that takes over 10 s or
2 GB.

    mutated.py VKFUSE VKFUSE_BENCH COUNT [SEED]      a file that fails stays in ./mutated-SEED-NUMBER.KIND
"""

import concurrent.futures, glob, math, os, random, re, resource, shutil, signal, struct, subprocess, sys, tempfile
import threading, time

SECONDS, BYTES = 10, 2 << 30
MOST_ELEMENTS = 1 << 24  # a product with more takes a processor most of that time by itself
vkfuse, bench, count = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3])
seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
here = os.path.dirname(os.path.abspath(__file__))
folder = tempfile.mkdtemp(prefix="vkfuse-mutated-")

GRAPH = """graph "g" {
  %0 = input "x" : f32[6, 8]
  %1 = input "w" : f32[8, 4]
  %2 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f32[6, 4]
  %3 = exp %2 : f32[6, 4]
  %4 = reduce_mean axes=[1] %3 : f32[6]
  output "y" = %3
  output "z" = %4
}
"""


def npy(dtype, shape, data):
    header = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (dtype, shape)).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def largest(text):
    """Elements of the largest tensor of a graph's text."""
    shapes = re.findall(rb"\[(\d+(?:, \d+)*)\]", text)
    return max((math.prod(int(size) for size in shape.split(b", ")) for shape in shapes), default=0)


def seeds():
    """Files of each kind that are good, and the command that reads one."""
    kinds = {"vkf": [GRAPH.encode()], "onnx": [], "npy": [], "plan": [], "json": []}
    folders = ("../golden", "../../examples/graphs")
    for name in sorted(name for one in folders for name in glob.glob(os.path.join(here, one, "*.vkf"))):
        text = open(name, "rb").read()
        if len(text) < 4000 and largest(text) <= MOST_ELEMENTS:
            kinds["vkf"].append(text)
    for name in sorted(glob.glob("/usr/share/libonnx-testdata/data/node/*/model.onnx")):
        if os.path.getsize(name) < 4000:
            kinds["onnx"].append(open(name, "rb").read())
    for name in sorted(glob.glob("/usr/share/libonnx-testdata/data/node/test_softmax_*/model.onnx"))[:1]:
        shutil.copy(name, folder + "/good.onnx")
    kinds["npy"] = [
        npy("<f4", "(6, 8)", bytes(192)),
        npy("<f2", "(6, 8)", bytes(96)),
        npy("|b1", "(3,)", bytes(3)),
        npy("<i8", "()", bytes(8)),
    ]
    good = folder + "/good.vkf"
    open(good, "w").write(GRAPH)
    subprocess.run([vkfuse, "plan", good, "--save", folder + "/good.plan"], check=True, stdout=subprocess.DEVNULL)
    kinds["plan"] = [open(folder + "/good.plan", "rb").read()]
    report = (
        '{"environment": {"device": "d", "driver": "e", "suite": "quick"}, "complete": true, "rows": '
        '[{"case": "a:f32:1", "name": "a f32", "outcome": "measured", "fused_us": 12.5, "fused_p10": 12, '
        '"fused_p90": 13, "fused_n": 40, "samples": {"fused": [12, 12.5, 13]}}, '
        '{"case": "b:f32:1", "name": "b", "outcome": "skipped"}]}'
    )
    open(folder + "/good.json", "w").write(report)
    kinds["json"] = [report.encode()]
    return {kind: files for kind, files in kinds.items() if files}


def command(kind, path):
    return {
        "vkf": [vkfuse, "run", path],
        "onnx": [vkfuse, "run", path],
        "npy": [vkfuse, "run", folder + "/good.vkf", "--input", "x=" + path],
        "plan": [vkfuse, "run", folder + "/good.vkf", "--plan", path],
        "json": [bench, "compare", path, folder + "/good.json"],
    }[kind]


NUMBERS = [
    b"0",
    b"-1",
    b"1",
    b"4294967296",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"99999999999999999999",
    b"1e999",
    b"nan",
    b"2147483647",
    b"65537",
]


def mutated(data, others, draw):
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 3, 8])):
        at = draw.randrange(len(data) + 1)
        end = min(len(data), at + draw.choice([1, 1, 2, 4, 8, 32, 200]))
        how = draw.randrange(9)
        if how == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif how == 1 and at < len(data):
            data[at] = draw.choice([0, 1, 0x7F, 0x80, 0xFF, 10, 27, 34, draw.randrange(256)])
        elif how == 2:
            del data[at:end]
        elif how == 3:
            data[at:at] = data[at:end] * draw.choice([1, 2, 50])
        elif how == 4:
            del data[at:]
        elif how == 5:
            other = draw.choice(others)
            start = draw.randrange(len(other) + 1)
            data[at:end] = other[start:start + draw.choice([4, 16, 64, 400])]
        elif how == 6:  # a number of the text
            digits = [i for i in range(len(data)) if 48 <= data[i] <= 57]
            if digits:
                first = draw.choice(digits)
                last = first
                while last < len(data) and 48 <= data[last] <= 57:
                    last += 1
                data[first:last] = draw.choice(NUMBERS)
        elif how == 7:
            data[at:end] = bytes(draw.randrange(256) for _ in range(end - at))
        else:
            data[at:at] = draw.choice([b"(", b"[", b"{", b'"', b"%0 ", b"\xff", b"\x00"]) * draw.choice([1, 3, 2000])
    return bytes(data)


def run(kind, path):
    """What is wrong, or nothing."""
    out = open(path + ".out", "wb+")
    start = time.time()
    process = subprocess.Popen(command(kind, path), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    timer = threading.Timer(SECONDS, process.kill)
    timer.start()
    peak = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        try:
            with open("/proc/%d/statm" % process.pid) as file:
                peak = max(peak, int(file.read().split()[1]) * resource.getpagesize())
        except (OSError, IndexError, ValueError):
            pass
        if peak > BYTES:
            process.kill()
        time.sleep(0.005)
    timer.cancel()
    process.returncode = 0  # it has been waited for
    out.seek(0)
    said = out.read().decode("utf-8", "replace")
    out.close()
    os.remove(path + ".out")
    peak = max(peak, usage.ru_maxrss * 1024)
    if time.time() - start > SECONDS:
        return "took over %d s" % SECONDS
    if peak > BYTES:
        return "took %d MB" % (peak >> 20)
    if os.WIFSIGNALED(status):
        return "died of %s: %s" % (signal.Signals(os.WTERMSIG(status)).name, said[-300:])
    code = os.WEXITSTATUS(status)
    if code not in (0, 1, 2):
        return "ended with %d: %s" % (code, said[-300:])
    if "defect in vkfuse" in said or "terminate called" in said:
        return "has a defect: " + said[-300:]
    if code == 2 and not said.strip():
        return "says nothing"
    return None


def one(job):
    number, kind, files = job
    draw = random.Random("%d %d" % (seed, number))
    data = mutated(draw.choice(files[kind]), files[kind], draw)
    path = "%s/%d.%s" % (folder, number, kind)
    with open(path, "wb") as file:
        file.write(data)
    wrong = run(kind, path)
    if wrong:
        shutil.copy(path, "mutated-%d-%d.%s" % (seed, number, kind))
    os.remove(path)
    return number, kind, wrong


def main():
    files = seeds()
    kinds = sorted(files)
    bad = 0
    start = time.time()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, kind, wrong in pool.map(one, ((i, kinds[i % len(kinds)], files) for i in range(count))):
            if wrong:
                bad += 1
                print("mutated-%d-%d.%s %s" % (seed, number, kind, wrong), flush=True)
    seconds = time.time() - start
    print("%d mutated files of %d kinds, seed %d, %.0f s: %d failed" % (count, len(kinds), seed, seconds, bad))
    shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad or len(kinds) < 4 else 0


sys.exit(main())

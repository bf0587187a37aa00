#!/usr/bin/env python3
"""Golden kernels for compilers of other vendors, and a table of what these say. Used by scripts/portability.sh.

  kernels FOLDER                  writes each golden kernel as FOLDER/NAME.comp, and what must be known of it as
                                  FOLDER/kernels.json
  arguments FOLDER CHIP           the kernels that the chip is given, for tests/portability/pipelines.c
  table FOLDER LISTINGS [--write PAGE] CHIP...
                                  the table; exit status 1 where a kernel fares worse than it may
"""

import json
import pathlib
import re
import sys

MARK = "<!-- Below: scripts/portability.sh --write -->"
# Those of golden kernels; VEGA10 has 64 alone, and ctest compiles for it what it gets.
WITH_SUBGROUPS_OF_32 = {"NAVI21", "NAVI31", "TURING", "AMPERE"}
WITH_MATRICES = {"NAVI31"}
# Its loads are of four bytes, whatever is asked for; a vector is several.
NARROW_LOADS = {"ADRENO630"}
REGISTERS = ["VGPRs", "Number of GPRs", "Registers used"]
SPILLS = ["Spilled SGPRs", "Spilled VGPRs", "SLM Size", "STP Count"]
# Kernels that spill on a chip, and are known to: no mark of quality, but no surprise either. Of others the script
# fails.
MAY_SPILL = {}
# Of which golden device a chip is: where a graph has a kernel for it, the chip gets that one of them alone, and others
# do not get it.
DEVICES = {"MALI": "mali", "ADRENO": "adreno"}


def write_kernels(folder):
    known = {}
    for path in sorted(pathlib.Path("tests/golden").glob("*.glsl")):
        plan = json.loads(path.with_suffix(".json").read_text())
        texts = ["#version" + text for text in path.read_text().split("#version")[1:]]
        for number, text in enumerate(texts):
            segment = plan["segments"][int(re.search(r"// segment (\d+)", text).group(1))]
            wide = lambda accesses: sum(one["kind"] == "vector" and one["vector_bytes"] == 16 for one in accesses)
            single = segment["dispatches"] == 1  # of several, which has which access is the template's business
            name = path.stem if len(texts) == 1 else f"{path.stem}.{number}"
            known[name] = {
                "graph": path.stem.split(".")[0],
                "device": path.stem.split(".")[1],
                "workgroup": segment["workgroup"],
                "subgroup": 32 if "subgroup" in text else 0,
                "matrices": "cooperative_matrix" in text,
                "loads": wide(segment["reads"]) if single else 0,
                "stores": wide(segment["writes"]) if single else 0,
            }
            (folder / f"{name}.comp").write_text(text)
    (folder / "kernels.json").write_text(json.dumps(known, indent=1))


def kernels_for(folder, chip):
    """Those that the library would give to such a chip, as far as a golden device is like it."""
    known = json.loads((folder / "kernels.json").read_text())
    own = next((device for family, device in DEVICES.items() if chip.startswith(family)), None)
    planned = {one["graph"] for one in known.values() if one["device"] == own}
    for name, one in known.items():
        if one["device"] != own and (one["device"] in DEVICES.values() or one["graph"] in planned):
            continue
        if not (folder / f"{name}.spv").exists():
            continue  # this shaderc does not know what it needs
        if (one["matrices"] and chip not in WITH_MATRICES) or (one["subgroup"] and chip not in WITH_SUBGROUPS_OF_32):
            continue
        yield name, one


def width_of(instruction):
    """Bytes that one lane loads or stores; 0 of what is no access to a buffer."""
    text = instruction.lstrip("+*")
    if text.startswith(("v_wmma", "scratch_", "ld.local", "st.local", "ldp", "stp")) or ".force" in text:
        return 0
    mask = re.search(r"\(([xyzw]+)\)$", text)
    if mask:
        return 4 * len(mask.group(1))
    typed = re.search(r"\.u(\d+)\.(\d)\.", text)  # stib.b.untyped.1d.u32.4.imm
    if typed:
        return int(typed.group(1)) // 8 * int(typed.group(2))
    bits = re.search(r"[._][biu](\d+)(?:\.|$|_)", text)
    if bits:
        return int(bits.group(1)) // 8
    words = re.search(r"dwordx(\d)", text)
    return 4 * int(words.group(1)) if words else 4 if "dword" in text else 2 if "short" in text or "d16" in text else 1


class Outcome:
    def __init__(self, statistics, accesses, spilled):
        numbers = dict(part.split("=") for part in statistics.split(";") if "=" in part)
        self.made = bool(numbers)
        self.registers = next((int(numbers[name]) for name in REGISTERS if name in numbers), None)
        self.spilled = spilled + sum(int(numbers.get(name, 0)) for name in SPILLS) + int(numbers.get("Scratch size", 0))
        self.loads, self.stores, self.products = {}, {}, 0
        for part in filter(None, accesses.strip().split(", ")):
            count, name = part.split(" ", 1)
            if "wmma" in name:
                self.products += int(count)
            bytes_ = width_of(name)
            kind = self.stores if re.match(r"[+*]?(st|ST|\w+_store)", name) else self.loads
            if bytes_:
                kind[bytes_] = kind.get(bytes_, 0) + int(count)

    def text(self):
        if not self.made:
            return "**no pipeline**"
        widest_first = lambda accesses: sorted(accesses.items(), reverse=True)
        widths = lambda accesses: " ".join(f"{count}×{bytes_}" for bytes_, count in widest_first(accesses)) or "0"
        parts = [] if self.registers is None else [f"{self.registers} r"]
        parts += [f"{widths(self.loads)} → {widths(self.stores)}"]
        parts += [f"{self.products} wmma"] if self.products else []
        parts += [f"**{self.spilled} spilled**"] if self.spilled else []
        return ", ".join(parts)


def outcomes(listing):
    found, spilled = {}, 0
    for line in listing.read_text(errors="replace").splitlines():
        spills = re.search(r"(\d+):\d+ spills:fills", line)
        if spills:
            spilled = int(spills.group(1))
        columns = line.split("\t")
        if len(columns) == 3 and columns[0].endswith(".spv"):
            found[columns[0][:-4]] = Outcome(columns[1], columns[2], spilled)
            spilled = 0
    return found


def faults_of(chip, name, known, outcome):
    if outcome is None or not outcome.made:
        return ["no pipeline is made"]
    faults = []
    if outcome.spilled and not (chip in MAY_SPILL and MAY_SPILL[chip].match(name)):
        faults.append(f"{outcome.spilled} registers or bytes are spilled")
    if outcome.loads.get(16, 0) < known["loads"] and chip not in NARROW_LOADS:
        faults.append(f"{known['loads']} loads of 16 bytes became {outcome.loads}")
    if outcome.stores.get(16, 0) < known["stores"]:
        faults.append(f"{known['stores']} stores of 16 bytes became {outcome.stores}")
    if known["matrices"] and not outcome.products:
        faults.append("no instruction multiplies matrices")
    return faults


def table(folder, listings, chips):
    every = {chip: outcomes(listings / chip) for chip in chips}
    faults, lines = [], ["| kernel | " + " | ".join(chips) + " |", "| --- |" + " --- |" * len(chips)]
    given = {chip: dict(kernels_for(folder, chip)) for chip in chips}
    for name in sorted({name for kernels in given.values() for name in kernels}):
        cells = []
        for chip in chips:
            if name not in given[chip]:
                cells.append("")
                continue
            outcome = every[chip].get(name)
            faults += [f"{chip}, {name}: {fault}." for fault in faults_of(chip, name, given[chip][name], outcome)]
            cells.append(outcome.text() if outcome else "**no pipeline**")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    summary = [
        "| chip | kernels | spill | most registers | loads and stores of 16 bytes |",
        "| --- | --- | --- | --- | --- |",
    ]
    for chip in chips:
        made = [every[chip][name] for name in given[chip] if name in every[chip] and every[chip][name].made]
        registers = [one.registers for one in made if one.registers is not None]
        summary.append(
            f"| {chip} | {len(made)} of {len(given[chip])} | {sum(one.spilled > 0 for one in made)} | "
            f"{max(registers) if registers else 'not said'} | "
            f"{sum(one.loads.get(16, 0) for one in made)}, {sum(one.stores.get(16, 0) for one in made)} |"
        )
    return summary, lines, faults


def main():
    mode, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if mode == "kernels":
        return write_kernels(folder)
    if mode == "arguments":
        for name, one in kernels_for(folder, sys.argv[3]):
            print(f"/kernels/{name}.spv:{one['workgroup']}:{one['subgroup']}")
        return
    rest = sys.argv[4:]
    page = rest[1] if rest[0] == "--write" else None
    summary, lines, faults = table(folder, pathlib.Path(sys.argv[3]), rest[2:] if page else rest)
    if page:
        text = pathlib.Path(page).read_text()
        head, found, _ = text.partition(MARK)
        if not found:
            sys.exit(f"{page} has no line '{MARK}'.")
        pathlib.Path(page).write_text("\n".join([head + MARK, "", *summary, "", *lines, ""]))
    else:
        print("\n".join([*summary, "", *lines]))
    for fault in faults:
        print(f"FAULT {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


main()

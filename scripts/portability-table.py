#!/usr/bin/env python3
"""What the drivers of tests/portability/chips.txt say of the kernels that are planned for their chips. Used by
scripts/portability.sh, which leaves in FOLDER/CHIP/ the device, the kernels of vkfuse-kernels and the listing of
tests/portability/pipelines.c.

  arguments FOLDER CHIP PLACE     the chip's kernels for pipelines.c, as files of the folder PLACE
  table FOLDER [--write PAGE] CHIP...
                                  the tables; exit status 1 where a kernel fares worse than it may
"""

import json
import pathlib
import re
import sys

MARK = "<!-- Below: scripts/portability.sh --write -->"
# What drivers call the registers of a thread, the values that did not fit there, and the bytes of memory that hold
# them: AMD (RADV), NVIDIA (NVK), Adreno (Turnip), Intel (ANV, of Mesa 25 and 26), Apple (Honeykrisp), VideoCore (V3DV).
# What NVK moves from one register file to another ("Spills to reg") is in no memory; what V3DV calls "TMU Spills" is
# the size of its spills once more, bytes of 16 lanes.
REGISTERS = ["VGPRs", "Number of GPRs", "Registers used", "GRF registers", "GPRs"]
SPILLS = ["Spilled SGPRs", "Spilled VGPRs", "Spills to memory", "STP Count", "Spill Count", "Spills"]
SCRATCH = ["Scratch size", "SLM size", "SLM Size", "Scratch Memory Size", "Scratch", "Spill Size"]
MATRIX_INSTRUCTIONS = ("v_wmma", "hmma", "imma", "dpas")
# Their loads are of four bytes, whatever is asked for; a vector is several.
NARROW_LOADS = {"ADRENO630"}
# Kernels that spill and are known to, each with the reason: of others the script fails.
MAY_SPILL = {}


def kernels_of(folder):
    """Name, and what the plan says, of each kernel of a chip; and the graphs that are not planned for it, with the
    reason."""
    kernels, refused = {}, {}
    for line in (folder / "kernels.jsonl").read_text().splitlines():
        plan = json.loads(line)
        graph = plan["graph"].removeprefix("golden ")
        if "refused" in plan:
            refused[graph] = plan["refused"]
            continue
        steps = plan["steps"]
        for number, step in enumerate(steps):
            dispatches = step.get("dispatches", [])
            for part, dispatch in enumerate(dispatches):
                name = graph + (f".{number}" if len(steps) > 1 else "") + (f".{part}" if len(dispatches) > 1 else "")
                text = (folder / "spirv" / (dispatch["spirv"] + ".glsl")).read_text()
                # Of several dispatches, which has which access is the template's business.
                loads, stores = step["whole_vectors"] if len(dispatches) == 1 else (0, 0)
                kernels[name] = {
                    "module": f"{dispatch['spirv']}.spv:{dispatch['workgroup']}:{dispatch['subgroup']}",
                    "compiled": (folder / "spirv" / (dispatch["spirv"] + ".spv")).exists(),
                    "matrices": "coopMatMulAdd" in text,
                    "loads": loads,
                    "stores": stores,
                }
    return kernels, refused


def width_of(instruction):
    """Bytes that one lane loads or stores; 0 of what is no access to a buffer."""
    text = instruction.lstrip("+*")
    if text.startswith(MATRIX_INSTRUCTIONS + ("scratch_", "ld.local", "st.local", "ldp", "stp")) or ".force" in text:
        return 0
    mask = re.search(r"\(([xyzw]+)\)$", text)
    if mask:
        return 4 * len(mask.group(1))
    message = re.fullmatch(r"(?:load|store)\.d(\d+)\.V(\d+)", text)  # Intel
    if message:
        return int(message.group(1)) // 8 * int(message.group(2))
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
        value = lambda names: sum(int(numbers.get(name, 0)) for name in names)
        self.made = bool(numbers)
        self.registers = value(REGISTERS)  # 0: the driver does not say
        self.spilled = spilled + value(SPILLS)
        self.scratch = value(SCRATCH)
        self.loads, self.stores, self.products = {}, {}, 0
        for part in filter(None, accesses.strip().split(", ")):
            count, name = part.split(" ", 1)
            if name.startswith(MATRIX_INSTRUCTIONS):
                self.products += int(count)
            bytes_ = width_of(name)
            kind = self.stores if re.match(r"[+*]?(st|ST|\w+_store)", name) else self.loads
            if bytes_:
                kind[bytes_] = kind.get(bytes_, 0) + int(count)

    def spills(self):
        return self.spilled > 0 or self.scratch > 0

    def spill_text(self):
        values, bytes_ = f"{self.spilled} values" * bool(self.spilled), f"{self.scratch} bytes" * bool(self.scratch)
        return ", ".join(filter(None, [values, bytes_]))

    def text(self):
        if not self.made:
            return "**no pipeline**"
        widest_first = lambda accesses: sorted(accesses.items(), reverse=True)
        widths = lambda accesses: " ".join(f"{count}×{bytes_}" for bytes_, count in widest_first(accesses)) or "0"
        parts = [f"{self.registers} r"] if self.registers else []
        parts += [f"{widths(self.loads)} → {widths(self.stores)}"] if self.loads or self.stores else []
        parts += [f"{self.products} products"] if self.products else []
        parts += [f"**{self.spill_text()} spilled**"] if self.spills() else []
        return ", ".join(parts) or "made"


def outcomes(listing):
    found, spilled = {}, 0
    for line in listing.read_text(errors="replace").splitlines():
        spills = re.search(r"(\d+):\d+ spills:fills", line)  # PanVK prints them before the kernel
        if spills:
            spilled = int(spills.group(1))
        columns = line.split("\t")
        if len(columns) == 3 and ".spv:" in columns[0]:
            found[columns[0]] = Outcome(columns[1], columns[2], spilled)
            spilled = 0
    return found


class Chip:
    def __init__(self, name, folder):
        self.name = name
        self.device = dict(line.partition(" ")[::2] for line in (folder / "device").read_text().splitlines())
        self.kernels, self.refused = kernels_of(folder)
        made = outcomes(folder / "listing")
        self.outcomes = {
            kernel: made[plan["module"]] for kernel, plan in self.kernels.items() if plan["module"] in made
        }
        # Some drivers print no instructions, or such as do not tell the width of an access.
        self.tells_accesses = any(one.loads or one.stores for one in self.outcomes.values())

    def made(self):
        return [one for one in self.outcomes.values() if one.made]

    def faults_of(self, kernel):
        plan, outcome = self.kernels[kernel], self.outcomes.get(kernel)
        if not plan["compiled"]:
            return ["no shaderc compiles it"]
        if outcome is None or not outcome.made:
            return ["no pipeline is made"]
        faults = []
        if outcome.spills() and (self.name, kernel) not in MAY_SPILL:
            faults.append(f"it spills ({outcome.spill_text()})")
        if self.tells_accesses and self.name not in NARROW_LOADS and outcome.loads.get(16, 0) < plan["loads"]:
            faults.append(f"{plan['loads']} loads of 16 bytes became {outcome.loads}")
        if self.tells_accesses and outcome.stores.get(16, 0) < plan["stores"]:
            faults.append(f"{plan['stores']} stores of 16 bytes became {outcome.stores}")
        if self.tells_accesses and plan["matrices"] and not outcome.products:
            faults.append("no instruction multiplies matrices")
        return faults

    def faults(self):
        known = [kernel for name, kernel in MAY_SPILL if name == self.name]
        idle = [kernel for kernel in known if kernel in self.outcomes and not self.outcomes[kernel].spills()]
        return [f"{self.name}, {kernel}: {fault}." for kernel in self.kernels for fault in self.faults_of(kernel)] + [
            f"{self.name}, {kernel}: it does not spill any more; its row of MAY_SPILL goes." for kernel in idle
        ]


def row(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def heading(cells):
    return [row(cells), "|" + " --- |" * len(cells)]


def summary_of(chips):
    lines = heading(
        ["chip", "device", "driver", "kernels", "spill", "most registers", "16-byte loads, stores", "on matrix units"]
    )
    for chip in chips:
        made = chip.made()
        registers = max((one.registers for one in made), default=0)
        accesses = [sum(getattr(one, kind).get(16, 0) for one in made) for kind in ("loads", "stores")]
        lines.append(
            row(
                [
                    chip.name,
                    chip.device["name"].strip(),
                    f"{chip.device['driver']}, {chip.device['driver_info']}",
                    f"{len(made)} of {len(chip.kernels)}",
                    sum(one.spills() for one in made),
                    registers or "not said",
                    f"{accesses[0]}, {accesses[1]}" if chip.tells_accesses else "not said",
                    sum(one["matrices"] for one in chip.kernels.values()),
                ]
            )
        )
    return lines


def spills_of(chips):
    lines = [
        row([chip.name, kernel, outcome.spill_text(), MAY_SPILL.get((chip.name, kernel), "**not accepted**")])
        for chip in chips
        for kernel, outcome in chip.outcomes.items()
        if outcome.spills()
    ]
    return heading(["chip", "kernel that spills", "what", "why"]) + lines if lines else ["No kernel spills."]


def refusals_of(chips):
    reasons = {}
    for chip in chips:
        for graph, reason in chip.refused.items():
            reasons.setdefault((graph, reason), []).append(chip.name)
    lines = [row([graph, ", ".join(names), reason]) for (graph, reason), names in reasons.items()]
    return heading(["graph", "not planned for", "why"]) + lines if lines else ["Every graph is planned for every chip."]


def kernels_table(chips):
    lines = heading(["kernel"] + [chip.name for chip in chips])
    for kernel in sorted({kernel for chip in chips for kernel in chip.kernels}):
        cells = [
            "" if kernel not in chip.kernels
            else chip.outcomes[kernel].text() if kernel in chip.outcomes
            else "**no pipeline**"
            for chip in chips
        ]
        lines.append(row([kernel] + cells))
    return lines


def write_tables(folder, page, names):
    chips = [Chip(name, folder / name) for name in names]
    tables = [summary_of(chips), spills_of(chips), refusals_of(chips), kernels_table(chips)]
    text = "\n\n".join("\n".join(lines) for lines in tables)
    if page:
        head, found, _ = page.read_text().partition(MARK)
        if not found:
            sys.exit(f"{page} has no line '{MARK}'.")
        page.write_text(f"{head}{MARK}\n\n{text}\n")
    else:
        print(text)
    faults = [fault for chip in chips for fault in chip.faults()]
    for fault in faults:
        print(f"FAULT {fault}", file=sys.stderr)
    return 1 if faults else 0


def main():
    mode, folder, rest = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    if mode == "arguments":
        kernels, _ = kernels_of(folder / rest[0])
        for module in dict.fromkeys(one["module"] for one in kernels.values() if one["compiled"]):
            print(f"{rest[1]}/{module}")
        return 0
    page = pathlib.Path(rest[1]) if rest[0] == "--write" else None
    return write_tables(folder, page, rest[2:] if page else rest)


if __name__ == "__main__":
    sys.exit(main())

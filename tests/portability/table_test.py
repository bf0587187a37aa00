#!/usr/bin/env python3
"""scripts/portability-table.py on what drivers print: lines of every driver of chips.txt, and each fault."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "portability-table.py"
spec = importlib.util.spec_from_file_location("table", SCRIPT)
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)

# Statistics, accesses; then registers, values spilled and bytes of scratch; loads and stores by their bytes.
DRIVERS = {
    "Intel, Mesa 26": (
        "Instructions=9618;Spills=641;Fills=682;Scratch Memory Size=0;GRF registers=0",
        "3 load.d32.V4, 16 store.d32.V2",
        ((0, 641, 0), {16: 3}, {8: 16}),
    ),
    "Intel, Mesa 25": (
        "Spill Count=3;Fill Count=4;Scratch Memory Size=2048",
        "6 load.d16.V2",
        ((0, 3, 2048), {4: 6}, {}),
    ),
    "Apple": ("GPRs=255;Uniforms=246;Scratch=16;Spills=2;Fills=2", "", ((255, 2, 16), {}, {})),
    "AMD": (
        "SGPRs=108;VGPRs=120;Spilled SGPRs=1;Spilled VGPRs=2;LDS size=3072;Scratch size=12",
        "3 buffer_load_b128, 16 buffer_store_b64",
        ((120, 3, 12), {16: 3}, {8: 16}),
    ),
    "NVIDIA": (
        "Spills to memory=5;Spills to reg=7;Number of GPRs=112;SLM size=64",
        "16 st.global.a64.strong.gpu.b64, 3 ld.global.a64.constant.b128, 4 hmma.m16n8k16.f32",
        ((112, 5, 64), {16: 3}, {8: 16}),
    ),
    "Adreno": (
        "Registers used=32;STP Count=0;LDP Count=0",
        "3 isam.v.base0.(xyzw), 16 stib.b.untyped.1d.u32.2.imm.base0",
        ((32, 0, 0), {16: 3}, {8: 16}),
    ),
    "VideoCore": ("Thread Count=2;Spill Size=1024;TMU Spills=1024;TMU Fills=1024", "", ((0, 0, 1024), {}, {})),
    "Mali": (
        "Code Size=512",
        "1 LD_BUFFER.i128.unsigned.slot0.wait0, 1 STORE.i32.slot2.reconverge",
        ((0, 0, 0), {16: 1}, {4: 1}),
    ),
}


class Drivers(unittest.TestCase):
    def test_statistics_and_accesses_of_each(self):
        for driver, (statistics, accesses, expected) in DRIVERS.items():
            with self.subTest(driver):
                one = table.Outcome(statistics, accesses, 0)
                numbers = (one.registers, one.spilled, one.scratch)
                self.assertEqual((numbers, one.loads, one.stores), expected)

    def test_products_of_matrices_are_counted_and_are_no_access(self):
        one = table.Outcome(DRIVERS["NVIDIA"][0], "4 hmma.m16n8k16.f32, 2 v_wmma_f32_16x16x16_f16, 1 dpas.8x8", 0)
        self.assertEqual(one.products, 7)
        self.assertEqual((one.loads, one.stores), ({}, {}))

    def test_mali_prints_spills_before_the_kernel(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as listing:
            listing.write("MESA_SHADER_COMPUTE shader: 7:9 spills:fills\na.spv:64:0\tCode Size=512;\t\n")
            listing.write("b.spv:64:0\tCode Size=512;\t\n")
            listing.flush()
            made = table.outcomes(pathlib.Path(listing.name))
        self.assertEqual([made["a.spv:64:0"].spilled, made["b.spv:64:0"].spilled], [7, 0])


class Faults(unittest.TestCase):
    """One chip with one kernel, of which the plan says two loads and a store of 16 bytes."""

    def faults(self, listing, text="", compiled=True, name="DG2"):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place) / name
            (folder / "spirv").mkdir(parents=True)
            (folder / "device").write_text("name A chip\ndriver A driver\ndriver_info Mesa\n")
            dispatch = {"spirv": "k", "workgroup": 64, "subgroup": 32}
            lines = [
                {"graph": "golden g", "steps": [{"whole_vectors": [2, 1], "dispatches": [dispatch]}]},
                {"graph": "golden wide", "refused": "It has no f64."},
            ]
            (folder / "kernels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            (folder / "spirv" / "k.glsl").write_text(text)
            if compiled:
                (folder / "spirv" / "k.spv").write_text("")
            (folder / "listing").write_text(listing)
            command = [sys.executable, SCRIPT, "table", place, name]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertIn("| wide | " + name + " | It has no f64. |", ended.stdout)
        faults = [line.removeprefix(f"FAULT {name}, g: ") for line in ended.stderr.splitlines()]
        self.assertEqual(ended.returncode, 1 if faults else 0, ended.stderr)
        return faults

    GOOD = "k.spv:64:32\tSpills=0;\t2 load.d32.V4, 1 store.d32.V4\n"

    def test_a_good_kernel_has_none(self):
        self.assertEqual(self.faults(self.GOOD), [])

    def test_each_fault_is_said(self):
        self.assertEqual(self.faults(self.GOOD.replace("Spills=0", "Spills=5")), ["it spills (5 values)."])
        self.assertEqual(self.faults("k.spv:64:32\tno pipeline: VkResult -3\t\n"), ["no pipeline is made."])
        self.assertEqual(self.faults("a crash\n"), ["no pipeline is made."])
        self.assertEqual(self.faults(self.GOOD, compiled=False), ["no shaderc compiles it."])
        split = self.GOOD.replace("2 load.d32.V4", "1 load.d32.V4, 4 load.d32.V1")
        self.assertEqual(self.faults(split), ["2 loads of 16 bytes became {16: 1, 4: 4}."])
        self.assertEqual(self.faults(split, name="ADRENO630"), [])
        self.assertEqual(
            self.faults(self.GOOD.replace("store.d32.V4", "store.d32.V2")), ["1 stores of 16 bytes became {8: 1}."]
        )
        self.assertEqual(
            self.faults(self.GOOD, text="c = coopMatMulAdd(a, b, c);"), ["no instruction multiplies matrices."]
        )

    def test_what_a_driver_does_not_print_is_no_fault(self):
        self.assertEqual(self.faults("k.spv:64:32\tSpills=0;\t\n"), [])


if __name__ == "__main__":
    unittest.main()

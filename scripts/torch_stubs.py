#!/usr/bin/env python3
"""Makes stubs of CUDA's libraries, so that a wheel of PyTorch that was built for CUDA runs without them.

  usage: scripts/torch_stubs.py FOLDER      (the folder torch/lib of the installed package)

Every symbol that PyTorch's libraries ask of another package is defined in a small library of the name that they ask
for, with the version that they ask for. Its functions fail, so that torch.cuda.is_available() is False. The stubs lie
beside PyTorch's libraries, where these look first.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

CUDA = re.compile(r"lib(cu|nv|nccl)")
# Symbols without a version: which library they are of shows their name.
PREFIXES = {"nccl": "libnccl", "cuFile": "libcufile", "nvshmem": "libnvshmem_host", "cusparseLt": "libcusparseLt",
            "cupti": "libcupti", "cu": "libcuda"}
# What is called while PyTorch is imported or asks whether there is a device, and needs more than an error number.
BODIES = {
    "cudaGetDeviceCount": "int {0}(int* count) {{ *count = 0; return 100; }}",
    "cudaStreamIsCapturing": "int {0}(void* stream, int* status) {{ (void)stream; *status = 0; return 0; }}",
    "__cudaRegisterFatBinary": "static void* handle; void** {0}(void* binary) {{ (void)binary; return &handle; }}",
}
TEXT = re.compile(r"String$|ErrorName$|GetErrorName|strerror", re.I)


def read(library, *options):
    return subprocess.run(["readelf", "-W", *options, str(library)], capture_output=True, text=True,
                          check=True).stdout


def owners(library):
    """Which library each version that one asks for is of."""
    made, owner = {}, None
    for line in read(library, "-V").splitlines():
        if found := re.search(r"File: (\S+)", line):
            owner = found[1]
        elif owner and (found := re.search(r"Name: (\S+)", line)):
            made[found[1]] = owner
    return made


def asked(libraries):
    """What libraries need that is CUDA's: {soname: {symbol: version or None}}."""
    needed, made = set(), collections.defaultdict(dict)
    defined, loose = set(), set()
    for library in libraries:
        needed.update(name for name in re.findall(r"NEEDED.*\[(.*)\]", read(library, "-d")) if CUDA.match(name))
        owner_of = owners(library)
        for line in read(library, "--dyn-syms").splitlines():
            fields = line.split()
            if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
                continue
            name, _, version = fields[7].partition("@")
            version = version.lstrip("@")
            if fields[6] != "UND":
                defined.add(name)
            elif CUDA.match(owner_of.get(version, "")):
                made[owner_of[version]][name] = version
            elif not version:
                loose.add(name)
    for name in sorted(loose - defined):
        stem = next((PREFIXES[prefix] for prefix in PREFIXES if name.startswith(prefix)), None)
        owner = next((one for one in needed if stem and one.startswith(stem + ".")), None)
        if owner:
            made[owner][name] = None
    return {name: made[name] for name in needed}


def body(name):
    if name in BODIES:
        return BODIES[name].format(name)
    if TEXT.search(name):
        return f'const char* {name}(void) {{ return "There is no CUDA here: this is a stub."; }}'
    return f"int {name}(void) {{ return 100; }}"  # cudaErrorNoDevice; an error of the other libraries, too


def make(soname, symbols, folder):
    with tempfile.TemporaryDirectory() as scratch:
        source, script = pathlib.Path(scratch) / "stub.c", pathlib.Path(scratch) / "stub.map"
        source.write_text("\n".join(body(name) for name in sorted(symbols)) + "\nint vkfuse_stub;\n")
        versions = {version for version in symbols.values() if version} or {soname}
        script.write_text("".join(
            f"{version} {{ global: *; }};\n" for version in sorted(versions)))
        command = ["cc", "-w", "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o",
                   str(folder / soname), str(source)]
        if any(symbols.values()):
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    stubs = asked(sorted(folder.glob("*.so")))
    for soname, symbols in sorted(stubs.items()):
        make(soname, symbols, folder)
    print(f"{len(stubs)} stubs of CUDA's libraries are in {folder}.")


if __name__ == "__main__":
    main()

"""What MPI and NCCL reach by themselves, for vkfuse-bench --suite parallel to be read beside: an all_reduce of f16 by
PyTorch's NCCL on the device, and MPI_Allreduce of f32 (MPI has no f16) in memory of the host.

    mpirun -n 2 python3 python/bench/collectives_alone.py [--most 1024] [--json FILE]     (OpenMPI)
"""

import argparse
import ctypes
import json
import os
import statistics
import time

import numpy as np
import torch
import torch.distributed as dist


class Mpi:
    """OpenMPI's library, whose handles are addresses of its objects."""

    def __init__(self):
        self.library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.library.MPI_Init(None, None)
        self.world, self.f32, self.sum = (
            ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.library, name)))
            for name in ("ompi_mpi_comm_world", "ompi_mpi_float", "ompi_mpi_op_sum")
        )

    def all_reduce(self, x, y):
        status = self.library.MPI_Allreduce(
            x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), x.size, self.f32, self.sum, self.world
        )
        assert status == 0


def median_us(run, finish, seconds=1.0):
    """Of one run, in microseconds; several between two looks at the clock where they are short."""
    for _ in range(3):
        run()
    finish()
    begin = time.perf_counter()
    run()
    finish()
    one = max(time.perf_counter() - begin, 1e-6)
    times = torch.tensor([one], dtype=torch.float64)
    dist.broadcast(times, 0, group=_HOST[0])  # every rank runs as often
    one = times.item()
    each = max(1, min(20, int(0.01 / one)))
    samples = []
    for _ in range(max(5, min(100, int(seconds / one / each)))):
        begin = time.perf_counter()
        for _ in range(each):
            run()
        finish()
        samples.append((time.perf_counter() - begin) / each * 1e6)
    return statistics.median(samples)


_HOST = []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1024, help="MiB of the largest sum")
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    mpi = Mpi()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    device = torch.device("cuda", torch.cuda.current_device())
    dist.init_process_group("nccl", rank=rank, world_size=size, device_id=device)
    _HOST.append(dist.new_group(backend="gloo"))
    rows = []
    kib = 64
    if rank == 0:
        print(f"{'all_reduce':<16} {'nccl us':>10} {'GB/s':>8} {'mpi us':>12} {'GB/s':>8}")
    while kib <= arguments.most * 1024:
        x = torch.zeros(kib * 512, dtype=torch.float16, device="cuda")
        nccl = median_us(lambda x=x: dist.all_reduce(x), torch.cuda.synchronize)
        given = np.zeros(kib * 256, np.float32)
        made = np.zeros_like(given)
        host = median_us(lambda a=given, b=made: mpi.all_reduce(a, b), lambda: None)
        size_in_bytes = kib * 1024
        rows.append({"kib": kib, "nccl_us": nccl, "mpi_us": host})
        if rank == 0:
            print(f"{kib:>12} KiB {nccl:>10.1f} {size_in_bytes / nccl / 1e3:>8.1f} {host:>12.1f} "
                  f"{size_in_bytes / host / 1e3:>8.2f}", flush=True)  # fmt: skip
        kib *= 4
    if rank == 0 and arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"nccl": ".".join(map(str, torch.cuda.nccl.version())), "torch": torch.__version__, "rows": rows},
                      file, indent=1)  # fmt: skip
    dist.destroy_process_group()
    mpi.library.MPI_Finalize()


main()

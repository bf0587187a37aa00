"""What the programs of this folder measure with."""

import statistics
import time


def median_us(work):
    """The median time of 1,000 calls, in microseconds, after 100 that are not counted."""
    times = []
    for _ in range(1100):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times[100:])

"""The memory floor of a decode step: the weights that it reads over the copy bandwidth of this card, measured now."""

from __future__ import annotations

import sys


def main() -> None:
    """Measure, and print what it makes of a token."""
    import torch

    weights = float(sys.argv[1]) if len(sys.argv) > 1 else 15.1e9
    a = torch.empty(2 * 2**30, dtype=torch.float32, device="cuda").normal_()
    b = torch.empty_like(a)
    times = []
    for _ in range(12):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        b.copy_(a)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    bandwidth = 2 * a.nbytes / (sorted(times)[len(times) // 2] / 1e3)
    print(f"copy bandwidth {bandwidth / 1e12:.2f} TB/s (read + write, median of 12 of {a.nbytes / 1e9:.1f} GB)")
    print(f"floor of a token: {weights / 1e9:.1f} GB of weights / bandwidth = {weights / bandwidth * 1e3:.2f} ms")


if __name__ == "__main__":
    main()

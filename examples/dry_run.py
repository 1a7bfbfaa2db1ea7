"""A dry run: trains a small model where there is no GPU, until it runs out of memory, and keeps a snapshot of that moment.

    millpond sim --capacity 2G -- python examples/dry_run.py
    millpond sweep dry_run.pickle                               # would other settings have saved it?

Works with PyTorch 2.15 alone; `--millpond` has Millpond serve the memory. Shapes and memory are right, values are not.
"""

import argparse
import os
import sys

import torch
from torch import nn

import millpond.torch


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 8, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens):
        normed = self.norm(tokens)
        tokens = tokens + self.attention(normed, normed, normed, need_weights=False)[0]
        return tokens + self.feed(tokens)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--millpond", action="store_true", help="Millpond serves the memory")
    arguments.add_argument("--snapshot", default="dry_run.pickle")
    options = arguments.parse_args()

    if options.millpond:
        print(millpond.torch.install())
    # cuBLAS and cuDNN do not start on the simulated device.
    millpond.torch.skip_products()
    torch.cuda.init()
    torch.cuda.memory._record_memory_history()

    def keep_snapshot(device, asked, limit, free):
        print(f"out of memory: {asked >> 20} MiB were asked for, {free >> 20} MiB are free; the snapshot is {options.snapshot}")
        torch.cuda.memory._dump_snapshot(options.snapshot)

    torch._C._cuda_attach_out_of_memory_observer(keep_snapshot)

    model = nn.Sequential(*(Block(512) for _ in range(8)), nn.Linear(512, 1000)).cuda()
    optimiser = torch.optim.AdamW(model.parameters())
    # Sequences grow until there is no room.
    for length in range(256, 1 << 20, 256):
        tokens = torch.randn(8, length, 512, device="cuda")
        try:
            loss = model(tokens).float().pow(2).mean()
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
        except torch.OutOfMemoryError as error:
            print(str(error).split(". ")[0])
            break
        print(f"length {length}: peak {torch.cuda.max_memory_allocated() >> 20} MiB")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # PyTorch's threads may be at work still.
    os._exit(0)

"""Millpond under PyTorch.

    import torch
    import millpond.torch

    print(millpond.torch.install())     # before the first use of CUDA

There are two grades. The *full* one implements PyTorch's own allocator interface, so that everything in `torch.cuda` goes on working;
it is written for torch 2.15 and compiled once, on first use, with g++. The *plain* one is PyTorch's plug for allocators
(`CUDAPluggableAllocator`); it needs no compiler, and PyTorch then refuses statistics, snapshots, pools and graphs.
"""

from ._install import GRADES, InstallError, Installed, install, installed
from ._products import skip_products

__all__ = ["GRADES", "InstallError", "Installed", "install", "installed", "skip_products"]

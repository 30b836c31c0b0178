"""Convolutions one by one, libtorch beside XLA on one core: the table behind tpubridge/lower/host_convolution.cc.

usage: python convolutions.py [CORE]

Prints, for each size, the least of many times in ms: forward, gradient of the input, gradient of the kernel. Images are NCHW and
kernels OIHW on both sides, as torch has them.
"""
import os, sys, time

os.environ |= {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}
os.sched_setaffinity(0, {int(sys.argv[1]) if len(sys.argv) > 1 else 0})
import torch, jax, jax.numpy as jnp
from jax import lax

torch.set_num_threads(1)
SIZES = {  # images, channels, side, outputs, kernel, stride, padding, groups
    "ResNet-18, batch 4: 3 to 64, 96×96, 7×7 / 2": (4, 3, 96, 64, 7, 2, 3, 1),
    "64 to 64, 24×24": (4, 64, 24, 64, 3, 1, 1, 1),
    "64 to 128, 24×24 / 2": (4, 64, 24, 128, 3, 2, 1, 1),
    "64 to 128, 24×24, 1×1 / 2": (4, 64, 24, 128, 1, 2, 0, 1),
    "128 to 128, 12×12": (4, 128, 12, 128, 3, 1, 1, 1),
    "256 to 256, 6×6": (4, 256, 6, 256, 3, 1, 1, 1),
    "512 to 512, 3×3": (4, 512, 3, 512, 3, 1, 1, 1),
    "MNIST, batch 64: 1 to 10, 28×28, 5×5": (64, 1, 28, 10, 5, 1, 0, 1),
    "10 to 20, 12×12, 5×5": (64, 10, 12, 20, 5, 1, 0, 1),
    "small CNN, batch 100: 1 to 16, 28×28, 5×5": (100, 1, 28, 16, 5, 1, 2, 1),
    "16 to 32, 14×14, 5×5": (100, 16, 14, 32, 5, 1, 2, 1),
    "DCGAN, batch 64: 3 to 64, 64×64, 4×4 / 2": (64, 3, 64, 64, 4, 2, 1, 1),
    "64 to 128, 32×32, 4×4 / 2": (64, 64, 32, 128, 4, 2, 1, 1),
    "one image: 256 to 256, 14×14": (1, 256, 14, 256, 3, 1, 1, 1),
    "96 channels by themselves, 28×28": (4, 96, 28, 96, 3, 1, 1, 96),
    "8 to 16, 12×12, batch 2": (2, 8, 12, 16, 3, 1, 1, 1),
    "16 to 16, 12×12, batch 4": (4, 16, 12, 16, 3, 1, 1, 1),
    "32 to 32, 8×8, batch 8": (8, 32, 8, 32, 3, 1, 1, 1),
}


def least(f, seconds=0.4):
    f(), f()
    best, start = 1e9, time.perf_counter()
    while time.perf_counter() - start < seconds:
        before = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - before)
    return best * 1e3


def times(n, c, side, o, k, stride, padding, groups):
    x, w = torch.randn(n, c, side, side), torch.randn(o, c // groups, k, k)
    g = torch.randn_like(torch.conv2d(x, w, None, stride, padding, 1, groups))
    back = lambda mask: torch.ops.aten.convolution_backward(g, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, mask)
    ours = [least(lambda: torch.conv2d(x, w, None, stride, padding, 1, groups)), least(lambda: back([True, False, False])),
            least(lambda: back([False, True, False]))]
    f = lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2, feature_group_count=groups)
    X, W, G = (jnp.asarray(t.numpy()) for t in (x, w, g))
    jitted = [jax.jit(f), jax.jit(lambda x, w: jax.vjp(lambda x: f(x, w), x)[1](G)), jax.jit(lambda x, w: jax.vjp(lambda w: f(x, w), w)[1](G))]
    xla = [least(lambda j=j: jax.block_until_ready(j(X, W))) for j in jitted]
    return 1e-6 * g.numel() * w.numel() / o, ours, xla


print("| | million multiplications | libtorch: forward, input, kernel | XLA: forward, input, kernel |\n|---|---|---|---|")
with torch.no_grad():
    for name, sizes in SIZES.items():
        million, ours, xla = times(*sizes)
        cells = [", ".join(f"{t:.3g}" for t in side) for side in (ours, xla)]
        print(f"| {name} | {million:.3g} | {cells[0]} | {cells[1]} |", flush=True)

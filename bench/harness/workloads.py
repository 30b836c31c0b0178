"""What is compared: the rows of the table, their sizes on each kind of machine, and the targets."""
from dataclasses import dataclass, field

OURS = "tpubridge"
LABELS = {  # in the order of the table
    OURS: "tpubridge",
    "traced": "tpubridge, traced",
    "libtorch": "libtorch eager (C++)",
    "jax": "jax.jit, own client",
    "jax_plugin": "jax.jit, same plugin",
    "torch": "torch eager",
    "torch_compile": "torch.compile",
}
JAX = ("jax", "jax_plugin")
TORCH = ("torch", "torch_compile")
PEERS = JAX + TORCH
UNITS = {"ns": 1e9, "µs": 1e6, "ms": 1e3, "s": 1, "MiB": 1 / 2**20}


@dataclass(frozen=True)
class Target:
    """Ours at most `factor` × the best of `against`, or at most `limit` (in seconds or bytes)."""
    factor: float = 0
    against: tuple = ()
    limit: float = 0


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    unit: str
    work: str = ""           # the workload's name in the programs
    sizes: dict = field(default_factory=dict)
    who: tuple = ()
    kind: str = "turns"      # turns | start | compile | fact | replay
    samples: int = 10        # in a turn
    calls: int = 1           # in a sample
    wait: str = "each"
    cache: str = "warm"      # start, compile: cold | warm | memory
    parallel: bool = False   # its programs use more than one core
    targets: tuple = ()


GPT = dict(vocabulary=512, length=128, layers=6, heads=6, width=384, batch=4, tied=0, dtype="f32")
GPT_TINY = dict(GPT, vocabulary=64, length=16, layers=2, heads=2, width=32, batch=2)
GPT2 = dict(vocabulary=50257, length=1024, layers=12, heads=12, width=768, batch=16, tied=1, dtype="bf16")
RESNET18 = dict(depth=18, width=64, classes=1000, batch=4, image=96, dtype="f32")
RESNET50 = dict(depth=50, width=64, classes=1000, batch=128, image=224, dtype="bf16")
BIRNN = dict(rows=28, width=128, layers=2, classes=10, batch=100)
NET = dict(classes=1000, batch=2, image=64, dtype="f32")  # what they compile hangs little on the sizes
NETS = {"efficientnet": ("EfficientNet-B0", NET), "mobilenet": ("MobileNetV3-Large", NET),
        "resnet": ("ResNet-50", dict(NET, depth=50, width=64)), "swin": ("Swin-T", dict(NET, batch=1, image=224)),
        "unet": ("U-Net", dict(NET, classes=4, width=64, levels=4))}
MLP = dict(layers=3, width=64, batch=32)
EVERYBODY = (OURS, "libtorch") + PEERS


def cpu_rows():
    best_jax = lambda factor: (Target(factor, JAX),)
    row = lambda *a, **k: Row(*a, **{"who": EVERYBODY, **k})
    return [
        row("tiny", "call of a compiled 8×8 add, awaited", "µs", "tiny", samples=20, calls=500, targets=best_jax(0.5)),
        row("mlp", "MLP 3×64, batch 32, SGD step, awaited", "µs", "mlp", MLP, samples=20, calls=100),
        row("mlp_pipelined", "the same, waiting after 100 steps", "µs", "mlp", MLP, samples=20, calls=100, wait="last"),
        row("mlp_window", "the same, 100 steps in one program (scan), per step", "µs", "mlp", dict(MLP, window=100), samples=10,
            calls=1000, wait="last", who=(OURS, *JAX)),
        row("resnet", "ResNet-18 training step, 4×3×96×96, SGD", "ms", "resnet", RESNET18, samples=3, parallel=True,
            targets=best_jax(1.0)),
        row("gpt", "GPT training step, 6 layers, 384 wide, 4×128 tokens, AdamW", "ms", "gpt", GPT, samples=4, parallel=True,
            who=(OURS, "traced", "libtorch") + PEERS, targets=(Target(0.7, ("jax_plugin",)), Target(1.0, ("libtorch",)))),
        row("birnn", "LSTM of 2 layers and directions, 28 steps, batch 100, AdamW", "ms", "birnn", BIRNN, samples=3, parallel=True),
        row("birnn_start", "start of the process to its first step done, nothing cached", "s", "birnn", BIRNN, kind="start",
            cache="cold"),
        row("gpt_memory", "device memory of that step at its peak", "MiB", "gpt", kind="fact", who=(OURS, "traced") + JAX,
            targets=best_jax(1.0)),
        row("decode", "GPT greedy decode with a KV cache, batch 1, per token", "µs", "decode", dict(GPT, batch=1), samples=5,
            calls=64, wait="last", targets=best_jax(0.7)),
        row("chain", "chain of 128 elementwise ops on 1 M floats", "ms", "chain", dict(ops=128, size=1 << 20), samples=5),
        row("to_device_small", "64 floats to the device", "µs", "to_device", dict(size=64), samples=20, calls=200, who=(OURS, *JAX)),
        row("to_device_large", "64 MiB to the device", "ms", "to_device", dict(size=1 << 24), samples=10, who=(OURS, *JAX)),
        row("to_host_small", "64 floats to the host", "µs", "to_host", dict(size=64), samples=20, calls=200, who=(OURS, *JAX)),
        row("to_host_large", "64 MiB to the host", "ms", "to_host", dict(size=1 << 24), samples=10, who=(OURS, *JAX)),
        row("trace", "tracing an op", "ns", "trace", samples=20, calls=1000, wait="last", who=("traced", *JAX)),
        *(Row(f"replay_{n}", f"replaying a step with {n} state tensors, over executing its program", "µs", str(n), who=(OURS,),
              kind="replay", targets=(Target(limit=5e-6 + 30e-9 * n),)) for n in (1, 100, 400)),
        *compile_rows(GPT, EVERYBODY),
        *net_rows(best_jax(1.2)),
        *start_rows(GPT, EVERYBODY, best_jax(0.3)),
    ]


def compile_rows(sizes, who):
    who = [w for w in who if w not in ("libtorch", "torch")]
    row = lambda name, title, cache: Row(name, title, "s", "gpt", sizes, tuple(who), "compile", cache=cache)
    return [row("compile_cold", "GPT step: compile, nothing cached", "cold"),
            row("compile_disk", "GPT step: compile, cached on disk", "warm"),
            row("compile_memory", "GPT step: compile again in the same process", "memory")]


def net_rows(targets):
    return [Row(f"compile_{work}", f"{title} training step, SGD with momentum: compile, nothing cached", "s", work, sizes, (OURS, *JAX),
                "compile", cache="cold", targets=targets) for work, (title, sizes) in NETS.items()]


def start_rows(sizes, who, targets):
    row = lambda name, title, cache, t: Row(name, title, "s", "gpt", sizes, who, "start", cache=cache, targets=t)
    return [row("start_cold", "start of the process to the first GPT step done, nothing cached", "cold", ()),
            row("start_warm", "the same with what was compiled kept on disk", "warm", targets)]


def gpu_rows():
    """Absolute aims, and to be ahead of the better peer. JAX's own client is the plugin that we use."""
    row = lambda *a, limit=0, **k: Row(*a, **{"who": (OURS, "jax", *TORCH),
                                              "targets": (*((Target(limit=limit),) if limit else ()), Target(1.0, PEERS)), **k})
    return [
        row("tiny", "call of a compiled 8×8 add, awaited", "µs", "tiny", samples=20, calls=500),
        row("mlp", "MLP 3×64, batch 32, SGD step, awaited", "µs", "mlp", MLP, samples=20, calls=200, limit=80e-6),
        row("mlp_pipelined", "the same, waiting after 200 steps", "µs", "mlp", MLP, samples=20, calls=200, wait="last", limit=40e-6),
        row("mlp_window", "the same, 100 steps in one program (scan), per step", "µs", "mlp", dict(MLP, window=100), samples=10,
            calls=1000, wait="last", who=(OURS, "jax"), limit=25e-6),
        row("resnet", "ResNet-50 training step, batch 128, bf16", "ms", "resnet", RESNET50, samples=5, calls=4, wait="last", limit=20e-3),
        row("gpt", "GPT-2 small training step, 16×1024, bf16, f32 masters, AdamW", "ms", "gpt", GPT2, samples=5, calls=4, wait="last",
            limit=29.5e-3),
        row("gpt_window", "the same, 8 steps in one program, per step", "ms", "gpt", dict(GPT2, window=8), samples=3, calls=8,
            wait="last", who=(OURS, "jax")),
        row("gpt_memory", "device memory of that step at its peak", "MiB", "gpt", kind="fact"),
        row("decode", "GPT-2 greedy decode, batch 1, bf16, per token", "µs", "decode", dict(GPT2, batch=1), samples=5, calls=128,
            wait="last", limit=400e-6),
        row("to_device_large", "64 MiB to the device", "ms", "to_device", dict(size=1 << 24), samples=10),
        row("to_host_large", "64 MiB to the host", "ms", "to_host", dict(size=1 << 24), samples=10),
        *compile_rows(GPT2, (OURS, "jax", "torch_compile")),
        *start_rows(GPT2, (OURS, "jax", *TORCH), (Target(limit=2.0), Target(1.0, PEERS))),
    ]


def tiny_sizes(row):
    """The same code paths in seconds, to try them out."""
    small = {"gpt": dict(GPT_TINY, dtype=row.sizes.get("dtype"), tied=row.sizes.get("tied")), "chain": dict(ops=16, size=1024),
             "resnet": dict(row.sizes, width=4, classes=5, batch=2, image=32), "to_device": dict(size=64), "to_host": dict(size=64),
             "birnn": dict(BIRNN, rows=6, width=8, batch=2), "unet": dict(row.sizes, width=4, levels=2, image=16)}
    if "window" in row.sizes:
        return dict(small.get(row.work, row.sizes), window=4)
    small["decode"] = dict(small["gpt"], batch=1)
    return small.get(row.work, row.sizes) if row.sizes else row.sizes


def rows(machine):
    return {"cpu": cpu_rows, "gpu": gpu_rows}[machine]()

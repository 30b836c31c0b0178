#!/usr/bin/env python3
"""Writes this folder with JAX (0.10) and numpy: for each case the program, its arguments and what JAX computes.

NAME.mlir (or .mlirbc, .jax: see `written`), NAME.in.safetensors with arg0, arg1, …, NAME.out.safetensors with
out0, out1, …; on several devices argI.D and outI.D. The files are committed; nothing needs this script.
jax.export's serialize() needs the package flatbuffers.

usage: make.py [name…]
"""
import json, os, pathlib, sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.config.update("jax_enable_x64", True)  # the programs say their types themselves
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")  # no folder of this machine in the files
HERE = pathlib.Path(__file__).resolve().parent
NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
         "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
         "complex64": "C64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
f32, i32 = np.float32, np.int32
rng = np.random.default_rng(7)


def normal(*dims, dtype=f32):
    return rng.standard_normal(dims).astype(dtype)


def save(path, arrays):
    head, at, parts = {}, 0, []
    for name, a in arrays.items():
        a = np.ascontiguousarray(a).reshape(np.shape(a))
        head[name] = {"dtype": NAMES[a.dtype.name], "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
        parts.append(a.tobytes())
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def attention():
    def f(q, k, v):
        return jax.nn.softmax(q @ k.T / 4, axis=-1) @ v
    return f, (normal(8, 16), normal(12, 16), normal(12, 5))


def convolution():
    def f(x, w):
        y = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return lax.reduce_window(jnp.maximum(y, 0), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return f, (normal(2, 12, 12, 3), normal(3, 3, 3, 4))


def gather_scatter():
    def f(table, rows, values):
        return table[rows], table.at[rows].add(values), jnp.zeros((6,), f32).at[rows].max(values[:, 0])
    return f, (normal(6, 4), np.array([1, 3, 3, 0, 5], i32), normal(5, 4))


def collatz():
    def f(n):
        def turn(s):
            x, count = s
            return jnp.where(x % 2 == 0, x // 2, 3 * x + 1), count + 1
        one = lambda x: lax.while_loop(lambda s: s[0] != 1, turn, (x, jnp.int32(0)))[1]
        return jax.vmap(one)(n)
    return f, (np.arange(1, 33, dtype=i32),)


def random_bits():
    def f(key, state):
        bits = lax.rng_bit_generator(state, (3, 4), dtype=jnp.uint32)
        return jax.random.uniform(key, (5,), dtype=f32), *bits
    return f, (np.array([0, 42], np.uint32), np.array([1, 2, 3, 4], np.uint32))


def sort():
    def f(keys, payload):
        return *lax.sort((keys, payload), num_keys=1), jnp.argsort(-keys, axis=1), lax.top_k(keys, 2)[0]
    return f, (normal(3, 7), np.arange(21, dtype=i32).reshape(3, 7))


def wide_types():
    def f(i, u, d):
        return i * i + 1, u // 3, jnp.sqrt(d) + d.sum()
    return f, (np.array([-3, 2**40, 7], np.int64), np.array([2**63 + 9, 10], np.uint64), np.abs(normal(2, 3, dtype=np.float64)))


def narrow_types():
    def f(b, h, p, i, u):
        return b * 2 + b[0], (h @ h.T), p ^ True, i + i, (u >> 1).astype(jnp.uint16), (b > 0)
    return f, (normal(5, dtype=ml_dtypes.bfloat16), normal(3, 4, dtype=np.float16), np.array([True, False, True]),
               np.array([100, -100, 3], np.int8), np.array([255, 4], np.uint8))


def complex_fft():
    def f(z, x):
        return jnp.fft.fft(z), jnp.exp(1j * x).astype(jnp.complex64), jnp.abs(z)
    return f, ((normal(8) + 1j * normal(8)).astype(np.complex64), normal(4))


def odd_shapes():
    def f(scalar, empty, one):
        return scalar * 2, empty + 1, jnp.concatenate([one, one], 2), jnp.array([np.nan, np.inf, -np.inf, 1], f32) * scalar
    return f, (f32(2.5), np.zeros((0, 3), f32), normal(1, 1, 2, 1))


def donated():
    def f(state, x):
        return state * 0.5 + x, (state * x).sum()
    return jax.jit(f, donate_argnums=0), (normal(4, 4), normal(4, 4))


def portable():  # the same program three times: text, StableHLO's portable artifact, jax.export's own file
    def f(x, w, b):
        return jnp.tanh(x @ w + b)
    return f, (normal(4, 6), normal(6, 3), normal(3))


def mesh(n):
    return Mesh(np.array(jax.devices()[:n]), ("x",))


def partitioned():  # rows over four devices, the weights on each; the sum needs all of them
    def f(x, w):
        return jnp.maximum(x @ w, 0), x.sum()
    m = mesh(4)
    rows, whole = NamedSharding(m, PartitionSpec("x")), NamedSharding(m, PartitionSpec())
    return jax.jit(f, in_shardings=(rows, whole), out_shardings=(rows, whole)), (normal(8, 6), normal(6, 3))


def manual():  # each device its own row; the program says itself what goes between them
    return jax.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i", devices=jax.devices()[:2]), (np.abs(normal(2, 5)) + 1,)


def parts(value, devices):
    """What each device holds of an array."""
    shards = sorted(value.addressable_shards, key=lambda s: s.device.id)
    return [np.asarray(s.data) for s in shards][:devices]


def per_device(f, args, devices):
    given = {f"arg0.{d}": a for d, a in enumerate(np.split(args[0], devices))}  # the first is split by rows
    given |= {f"arg{i}": a for i, a in enumerate(args) if i > 0}
    made = jax.tree.leaves(f(*args))
    return given, {f"out{i}.{d}": p for i, o in enumerate(made) for d, p in enumerate(parts(o, devices))}


def write(name, f, args):
    f = f if hasattr(f, "lower") else jax.jit(f)
    devices = {"partitioned": 4, "manual": 2}.get(name, 1)
    (HERE / f"{name}.mlir").write_text(f.lower(*args).as_text())
    if devices > 1:
        given, made = per_device(f, args, devices)
    else:
        given = {f"arg{i}": np.asarray(a) for i, a in enumerate(args)}
        made = {f"out{i}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(f(*args)))}
    save(HERE / f"{name}.in.safetensors", given)
    save(HERE / f"{name}.out.safetensors", made)
    if name in ("portable", "partitioned"):
        exported = jax.export.export(f)(*args)
        (HERE / f"{name}.mlirbc").write_bytes(exported.mlir_module_serialized)
    if name == "portable":
        (HERE / "portable.jax").write_bytes(exported.serialize())
        for i, a in enumerate(args):
            np.save(HERE / f"portable.{'xwb'[i]}.npy", a)


CASES = [attention, convolution, gather_scatter, collatz, random_bits, sort, wide_types, narrow_types, complex_fft,
         odd_shapes, donated, portable, partitioned, manual]

if __name__ == "__main__":
    for case in CASES:
        f, args = case()  # always drawn, so that the numbers of a case do not depend on the others
        if case.__name__ in (sys.argv[1:] or [c.__name__ for c in CASES]):
            write(case.__name__, f, args)

"""Writes tests/data/kernels: kernels as jax.export gives them, and what they compute. Needs jax and numpy.

usage: python3 tests/python/make_kernels.py
"""
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")  # no paths of this machine
HERE = pathlib.Path(__file__).resolve().parent.parent / "data" / "kernels"
F32 = jnp.float32


def arg(*dims, dtype=F32):
    return jax.ShapeDtypeStruct(dims, dtype)


def save(name, f, *args, platforms=("cpu",)):
    exported = export.export(jax.jit(f), platforms=list(platforms))(*args)
    (HERE / f"{name}.mlir").write_text(str(exported.mlir_module()))
    return exported


def attention(q, k, v):  # functions beside @main: softmax's where, tril
    scores = q @ k.T / np.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape, bool)), scores, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ v


def top(x, ids):  # integers in and out, two results
    y = x[ids]
    return jnp.sum(y * y, axis=1), jnp.argmax(y, axis=1)


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = jnp.tanh(x_ref[...] + y_ref[...])


def pallas_add(x, y):
    return pl.pallas_call(add_kernel, out_shape=arg(*x.shape, dtype=x.dtype), grid=(2,),
                          in_specs=[pl.BlockSpec((128, 128), lambda i: (i, 0))] * 2,
                          out_specs=pl.BlockSpec((128, 128), lambda i: (i, 0)))(x, y)


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    for rows in (8, 12):
        args = (arg(rows, 16), arg(rows, 16), arg(rows, 4))
        e = save(f"attention_{rows}", attention, *args)
        (HERE / f"attention_{rows}_grad.mlir").write_text(str(e.vjp().mlir_module()))
    save("top", top, arg(6, 5), arg(4, dtype=jnp.int32))
    e = save("several_platforms", attention, arg(8, 16), arg(8, 16), arg(8, 4), platforms=("cpu", "tpu"))
    (HERE / "attention_8.mlirbc").write_bytes(export.export(jax.jit(attention), platforms=["cpu"])(
        arg(8, 16), arg(8, 16), arg(8, 4)).mlir_module_serialized)
    save("pallas_tpu", pallas_add, arg(256, 128), arg(256, 128), platforms=("tpu",))
    (dim,) = export.symbolic_shape("n")
    save("dynamic", lambda x: x * 2, arg(dim))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the StableHLO programs of this folder with JAX (0.10). The .mlir files are committed; nothing needs this.

usage: make.py [name…]
"""
import os, pathlib, sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax
import jax.numpy as jnp

HERE = pathlib.Path(__file__).resolve().parent
bf16, f32 = jnp.bfloat16, jnp.float32


def mlp_step():
    """A 2-layer MLP: forward, backward, SGD with momentum; the weights and momenta are donated."""
    def loss(w, x, y):
        h = jnp.maximum(x @ w["w1"] + w["b1"], 0)
        logp = jax.nn.log_softmax(h @ w["w2"] + w["b2"])
        return -jnp.mean(jnp.sum(logp * jax.nn.one_hot(y, 10), -1))

    def step(w, m, x, y, rate):
        value, g = jax.value_and_grad(loss)(w, x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
        return jax.tree.map(lambda w, m: w - rate * m, w, m), m, value

    w = {"w1": shape(784, 512), "b1": shape(512), "w2": shape(512, 10), "b2": shape(10)}
    return jax.jit(step, donate_argnums=(0, 1)).lower(w, w, shape(256, 784), shape(256, dtype=jnp.int32), shape())


def mlp_sharded():
    """The forward pass of an MLP on 4 devices: the batch is split, and so is the first weight (FSDP)."""
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
    put = lambda *dims, spec: jax.ShapeDtypeStruct(dims, f32, sharding=NamedSharding(mesh, spec))
    forward = lambda x, w1, w2: jnp.mean(jnp.tanh(x @ w1) @ w2)
    return jax.jit(forward).lower(put(1024, 512, spec=P("data")), put(512, 2048, spec=P("data")), put(2048, 128, spec=P()))


def gpt2_step(batch=4, layers=12, width=768, heads=12, length=1024, vocabulary=50304):
    """GPT-2 small (124M) training: bf16 compute, f32 weights, AdamW, the layers in one loop, each recomputed."""
    def norm(x, scale):
        x = x.astype(f32)
        x = x - jnp.mean(x, -1, keepdims=True)
        return (x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale).astype(bf16)

    def block(x, w):
        n = norm(x, w["norm1"])
        q, k, v = jnp.moveaxis((n @ w["qkv"].astype(bf16)).reshape(*x.shape[:2], 3, heads, -1), 2, 0)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(f32) * (width // heads) ** -0.5
        seen = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e9)).astype(bf16)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ w["out"].astype(bf16)
        return x + jax.nn.gelu(norm(x, w["norm2"]) @ w["up"].astype(bf16)) @ w["down"].astype(bf16), None

    def loss(w, tokens):
        x = (w["embed"][tokens[:, :-1]] + w["place"]).astype(bf16)
        x, _ = jax.lax.scan(jax.checkpoint(block), x, w["blocks"])
        logits = (norm(x, w["norm"]) @ w["embed"].T.astype(bf16)).astype(f32)
        own = jnp.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - own)

    def step(w, m, v, count, tokens):
        value, g = jax.value_and_grad(loss)(w, tokens)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, v, g)
        a, b = 1 - 0.9**count, 1 - 0.95**count
        new = lambda w, m, v: w - 3e-4 * (m / a / (jnp.sqrt(v / b) + 1e-8) + 0.1 * w)
        return jax.tree.map(new, w, m, v), m, v, value

    w = {"embed": shape(vocabulary, width), "place": shape(length, width), "norm": shape(width),
         "blocks": {"norm1": shape(layers, width), "norm2": shape(layers, width),
                    "qkv": shape(layers, width, 3 * width), "out": shape(layers, width, width),
                    "up": shape(layers, width, 4 * width), "down": shape(layers, 4 * width, width)}}
    tokens = shape(batch, length + 1, dtype=jnp.int32)
    return jax.jit(step, donate_argnums=(0, 1, 2)).lower(w, w, w, shape(), tokens)


def mandelbrot(rows=400, columns=1000, steps=200):
    """The Mandelbrot set: how slowly each point escapes, on a scale for the eye. No arguments."""
    def picture():
        y = jnp.linspace(-1.25, 1.25, rows, dtype=f32)[:, None]
        x = jnp.linspace(-2.25, 0.875, columns, dtype=f32)[None, :]
        zero = jnp.zeros((rows, columns), f32)

        def turn(state):
            n, a, b, count = state
            a, b = a * a - b * b + x, 2 * a * b + y
            inside = a * a + b * b <= 4
            # A point that has escaped is put where it stays, so that nothing overflows.
            return n + 1, jnp.where(inside, a, 4), jnp.where(inside, b, 4), count + inside.astype(f32)

        *_, count = jax.lax.while_loop(lambda s: s[0] < steps, turn, (0, zero, zero, zero))
        return jnp.log1p(count)

    return jax.jit(picture).lower()


def life(generations=120, rows=36, columns=72):
    """Conway's game of life: a glider gun and what it has shot after some generations. No arguments."""
    gun = ["                        x           ",
           "                      x x           ",
           "            xx      xx            xx",
           "           x   x    xx            xx",
           "xx        x     x   xx              ",
           "xx        x   x xx    x x           ",
           "          x     x       x           ",
           "           x   x                    ",
           "            xx                      "]

    def board():
        start = jnp.zeros((rows, columns), jnp.int32)
        start = start.at[2:2 + len(gun), 2:2 + len(gun[0])].set(
            jnp.array([[c == "x" for c in line] for line in gun], jnp.int32))

        def generation(_, now):
            edged = jnp.pad(now, 1)
            around = sum(edged[1 + dy:rows + 1 + dy, 1 + dx:columns + 1 + dx]
                         for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx)
            return ((around == 3) | ((around == 2) & (now == 1))).astype(jnp.int32)

        return jax.lax.fori_loop(0, generations, generation, start)

    return jax.jit(board).lower()


def shape(*dims, dtype=f32):
    return jax.ShapeDtypeStruct(dims, dtype)


PROGRAMS = {"mlp_step": mlp_step, "mlp_sharded": mlp_sharded, "gpt2_step": gpt2_step, "mandelbrot": mandelbrot, "life": life}

if __name__ == "__main__":
    for name in sys.argv[1:] or PROGRAMS:
        (HERE / f"{name}.mlir").write_text(PROGRAMS[name]().as_text())

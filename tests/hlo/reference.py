#!/usr/bin/env python3
"""Writes ../data/hlo_reference.json: inputs and expected results of every case in cases_*.cc.

The truth is numpy and scipy; JAX (on the CPU) for convolutions, windows and random bits.
usage: reference.py   (needs numpy, scipy, ml_dtypes and jax)
"""
import json, math, os, pathlib

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import scipy.linalg, scipy.special
from jax import lax

from reference_elementwise import binary, constants, conversions, elementwise, wide
from reference_tools import CASES, F, I, case, counting, f, rand


def shapes():
    x = counting(2, 1)
    case("broadcast_in_dim", [x], np.broadcast_to(x.reshape(1, 1, 2), (2, 3, 2)))
    case("broadcast_in_dim.scalar", [F(3)], np.full((2, 2), 3, F))
    case("reshape", [counting(2, 3)], counting(3, 1, 2))
    y = counting(2, 3, 4)
    case("transpose", [y], y.transpose(2, 0, 1))
    case("reverse", [y], y[::-1, :, ::-1])
    z = counting(4, 5)
    case("slice", [z], [z[1:4, 0:5:2], z[0:0, 2:5]])
    w = counting(2, 1, dtype=I)
    case("concatenate", [counting(2, 3, dtype=I), w], np.concatenate([counting(2, 3, dtype=I), w, counting(2, 3, dtype=I)], 1))
    padded = np.full((5, 4), 9, F)
    padded[1, :2], padded[4, :2] = [1, 2], [4, 5]
    case("pad", [counting(2, 3), F(9)], padded)
    case("dynamic_slice", [z, I(1), I(4)], z[1:3, 2:5])
    changed = z.copy()
    changed[2:4, 1:3] = -1
    case("dynamic_update_slice", [z, np.full((2, 2), -1, F), I(7), I(1)], changed)


def sugar():
    a, b = f(1, 2, 4).reshape(1, 3), f(2, -4).reshape(2, 1)
    case("sugar.arithmetic", [a, b], [a + b, a - b, a * b, a / b, -a, 2 * a + 1, 1 / (a - F(0.5)), (a - 3) / F(2), F(1.5) - a])
    case("sugar.compare", [a, b], [a == b, a != b, a < b, a <= b, a > b, a >= b])
    p = np.array([True, False, True])
    case("sugar.where", [p, b, F(0)], np.where(p, b, F(0)))
    x = counting(2, 3)
    case("sugar.dims", [x], [x.reshape(1, 2, 3, 1), x, x[:, 1:3], np.broadcast_to(x, (2, 2, 3)), x.ravel(), x.T])
    y = f(3, -1, 2, 5, 0.5, -4).reshape(2, 3)
    case("sugar.reduce", [y], [y.sum(0), y.prod(1, keepdims=True), y.min(), y.max(1)])
    i = np.array([12, 10, -3, 6], I)
    case("sugar.reduce.int", [i], [i.min(), i.max(), np.bitwise_and.reduce(i), np.bitwise_or.reduce(i), np.bitwise_xor.reduce(i)])
    z = rand(4, 3)
    case("sugar.reduce_window", [z], np.array([[z[r:r + 2, c:c + 2].max() for c in range(2)] for r in (0, 2)]))
    m, n = rand(2, 1, 3, 4), rand(5, 4, 2)
    case("sugar.matmul", [m, n], m @ n)


def reductions():
    x = counting(2, 3, 4)
    case("reduce.add", [x, F(10)], x.sum(1) + 10)
    case("reduce.add.all", [x, F(0)], x.sum())
    case("reduce.multiply", [x + 1, F(1)], (x + 1).prod(0))
    case("reduce.minimum", [x, F(math.inf)], x.min((0, 2)))
    case("reduce.maximum.s32", [x.astype(I), I(-(2**31))], x.astype(I).max(1))
    p = np.array([[True, True, False], [True, False, False]])
    case("reduce.and.pred", [p, np.bool_(True)], p.all(0))
    case("reduce.or.pred", [p, np.bool_(False)], p.any(0))
    i = np.array([12, 10, 5], I)
    case("reduce.xor.s32", [i, I(0)], np.bitwise_xor.reduce(i))
    case("reduce.empty", [np.zeros((0, 2), F), F(5)], f(5, 5))
    y = f(3, 9, 9, 1, 5, 2, 0, 5).reshape(2, 4)
    case("reduce.argmax", [y], [y.max(1), y.argmax(1).astype(I)])
    case("reduce.nothing", [y], y)
    image = rand(1, 2, 5, 5)
    pool = lax.reduce_window(image, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))
    case("reduce_window.maximum", [image], pool)
    z = rand(3, 4)
    spread = np.zeros((5, 4), F)
    spread[::2] = z
    case("reduce_window.add", [z], np.array([[spread[r:r + 2, [c, c + 2]].sum() for c in range(2)] for r in range(4)]))
    v = f(1, 2, 3, 4, 5)
    case("reduce_window.cumsum", [v], v.cumsum())
    case("reduce_window.two", [v], [v[:-1] + v[1:], v[1:]])
    a, source = f(1, 5, 2, 0, 3, 4, 9, 8, 7, 1, 2, 2, 3, 1, 6, 1).reshape(4, 4), f(10, 20, 30, 40).reshape(2, 2)
    out = np.zeros_like(a)
    for r in range(2):
        for c in range(2):
            window = a[2 * r:2 * r + 2, 2 * c:2 * c + 2]
            i, j = np.unravel_index(window.argmax(), (2, 2))
            out[2 * r + i, 2 * c + j] += source[r, c]
    image = lambda v: v[None, None]  # [batch, feature, …], as the TPU wants it
    case("select_and_scatter", [image(a), image(source)], image(out))
    case("select_and_scatter.overlap", [image(f(1, 9, 2, 3)), image(f(1, 2, 4, 8))], image(f(0, 7, 0, 8)))


def products():
    a, b = rand(3, 4), rand(4, 5)
    case("dot_general", [a, b], a @ b)
    c, d = rand(2, 3, 4), rand(5, 4, 2)
    case("dot_general.batch", [c, d], np.einsum("bmk,nkb->bmn", c, d))
    case("dot_general.inner", [a[0], a[1]], a[0] @ a[1])
    case("dot_general.outer", [a[0], b[0]], np.outer(a[0], b[0]))
    i, j = np.array([[100, -100, 3]], np.int8), np.array([[100], [90], [-7]], np.int8)
    case("dot_general.s8", [i, j], i.astype(I) @ j.astype(I))
    case("dot_general.algorithm", [a, b], a @ b)
    r = lambda x: x.astype(ml_dtypes.bfloat16).astype(F)
    case("dot_general.algorithm.bf16", [a, b], r(a) @ r(b), 1e-2)
    case("dot_general.bf16", [a, b], r(a) @ r(b))
    m = rand(2, 3, 3)
    spd = m @ m.transpose(0, 2, 1) + 3 * np.eye(3, dtype=F)
    low = np.linalg.cholesky(spd)
    case("cholesky.lower", [spd], low)
    case("cholesky.upper", [spd], low.transpose(0, 2, 1))
    right = rand(2, 3, 2)
    case("triangular_solve", [low, right], np.linalg.solve(low, right))
    up = low.transpose(0, 2, 1).copy()
    case("triangular_solve.right", [up, right.transpose(0, 2, 1)], np.linalg.solve(low, right).transpose(0, 2, 1))
    case("triangular_solve.transpose", [low, right], np.linalg.solve(up, right))
    unit = np.tril(low, -1) + np.eye(3, dtype=F)
    case("triangular_solve.unit", [low, right], np.linalg.solve(unit, right))
    z = (rand(2, 4) + 1j * rand(4, 2).reshape(2, 4)).astype(np.complex64)
    case("fft", [z], np.fft.fft(z).astype(np.complex64))
    case("ifft", [z], np.fft.ifft2(z).astype(np.complex64))
    x = rand(2, 6)
    spectrum = np.fft.rfft(x).astype(np.complex64)
    case("rfft", [x], spectrum)
    case("irfft", [spectrum], x)
    case("dot_general.c64", [z, z.T.copy()], z @ z.T)
    tri = (np.tril(rand(3, 3)) + 2 * np.eye(3) + 1j * np.tril(rand(4, 3)[:3], -1)).astype(np.complex64)
    y = z.reshape(4, 2)[:3]
    case("triangular_solve.adjoint", [tri, y], scipy.linalg.solve(tri.conj().T, y))


def convolutions():
    def conv(name, x, k, numbers, **options):
        rank = x.ndim - 2
        window = dict(window_strides=(1,) * rank, padding=((0, 0),) * rank) | options
        case(name, [x, k], lax.conv_general_dilated(x, k, dimension_numbers=numbers, precision="highest", **window), 1e-4)

    image, kernel = rand(2, 3, 5, 6), rand(4, 3, 3, 2)
    two = ("NCHW", "OIHW", "NCHW")
    conv("convolution", image, kernel, two, window_strides=(2, 1), padding=((1, 1), (0, 2)))
    conv("convolution.one", rand(2, 3, 8), rand(4, 3, 3), ("NCH", "OIH", "NCH"), rhs_dilation=(2,))
    conv("convolution.three", rand(1, 2, 3, 4, 3), rand(2, 2, 2, 2, 2), ("NCDHW", "OIDHW", "NCDHW"))
    flipped = kernel[:, :, ::-1, ::-1].copy()
    x, k = rand(2, 3, 3, 4), kernel
    case("convolution.transposed", [x, k],
         lax.conv_general_dilated(x, flipped, (1, 1), ((1, 1), (1, 1)), lhs_dilation=(2, 2), dimension_numbers=two,
                                  precision="highest"), 1e-4)
    conv("convolution.groups", rand(2, 4, 5, 5), rand(6, 2, 3, 3), two, feature_group_count=2)
    conv("convolution.batch_groups", rand(4, 3, 5, 5), rand(6, 3, 3, 3), two, batch_group_count=2)
    conv("convolution.channels_last", rand(2, 5, 5, 3), rand(3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    a, b = rand(1, 2, 6), rand(3, 2, 3)
    case("convolution.cut", [a, b], lax.conv_general_dilated(a[:, :, 1:], b, (1,), ((0, 0),), dimension_numbers=("NCH", "OIH", "NCH")), 1e-4)
    r = lambda v: v.astype(ml_dtypes.bfloat16).astype(F)
    case("convolution.bf16", [a, b], lax.conv_general_dilated(r(a), r(b), (1,), ((0, 0),), dimension_numbers=("NCH", "OIH", "NCH")), 1e-4)


def indexing():
    table, ids = counting(5, 3), np.array([[4], [0], [2], [99], [-3]], I)
    case("gather.rows", [table, ids], table[[4, 0, 2, 4, 0]])
    places = np.array([[0, 1], [2, 2], [4, 0]], I)
    case("gather.elements", [table, places], table[places[:, 0], places[:, 1]])
    corners = np.array([[1, 0, 9], [0, 3, 9]], I)  # columns: (x, y)
    case("gather.windows", [table, corners], np.stack([table[0:2, 1:3], table[3:5, 0:2], table[3:5, 1:3]]))
    picks = np.array([[[2], [0]], [[1], [1]]], I)
    case("gather.batch", [table[:2], picks], np.array([[2, 0], [4, 4]], F))
    updates = counting(3, 3) + 1
    rows = np.array([[1], [1], [7]], I)
    summed = table.copy()
    summed[1] += updates[0] + updates[1]
    case("scatter.add", [table, rows, updates], summed)
    largest = table.copy()
    largest[0, 1], largest[4, 0] = 100, 12
    case("scatter.maximum", [table, places, f(100, 0, 3)], largest)
    put = table.copy()
    put[0, 1], put[2, 2], put[4, 0] = -1, -2, -3
    case("scatter.set", [table, places, f(-1, -2, -3)], put)
    batch = table[:2].copy()
    batch[0, 2] += 10
    batch[0, 0] += 20
    batch[1, 1] += 70
    case("scatter.batch", [table[:2], picks, f(10, 20, 30, 40).reshape(2, 2)], batch)
    case("scatter.two", [f(1, 2, 3), np.array([1, 2, 3], I), np.array([[0], [2], [0]], I), f(10, 20, 30), np.array([5, -6, -7], I)],
         [f(41, 2, 23), np.array([-7, 2, -6], I)])
    x = np.array([[3, 1, 2], [0, 5, -1]], I)
    case("sort", [x], np.sort(x, 1))
    y = f(2, 5, 2, 9, 5)
    case("sort.pairs", [y], [f(9, 5, 5, 2, 2), np.array([3, 1, 4, 0, 2], I)])
    case("top_k", [f(1, 7, 3, 9, 2, 4).reshape(2, 3)], [f(7, 3, 9, 4).reshape(2, 2), np.array([[1, 2], [0, 2]], I)])


def control():
    case("while", [I(5), f(1, -2)], [I(5), I(15), f(32, -64)])
    case("nested.true", [np.bool_(True), I(5)], I(34))  # 10 + 1 + 10 + 3 + 10
    case("nested.false", [np.bool_(False), I(5)], I(-5))
    x = f(2, -3)
    case("case", [x], [x, -x, x * x, x * x])
    case("optimization_barrier", [x], [2 * x, x])
    case("call", [x], [x**3, x**9, F(7)])
    case("composite", [x], x * scipy.special.expit(F(1.702) * x))
    case("after_all", [x], x)


def random():
    key = np.array([0x0123456789ABCDEF, 42], np.uint64)
    bits = lambda shape, dtype, algorithm: [np.asarray(o) for o in lax.rng_bit_generator(key, shape, dtype, algorithm=algorithm)]
    case("rng_bit_generator.three_fry", [key], bits((2, 3), jnp.uint32, lax.RandomAlgorithm.RNG_THREE_FRY))
    case("rng_bit_generator.three_fry.u64", [key], bits((3,), jnp.uint64, lax.RandomAlgorithm.RNG_THREE_FRY))
    case("rng_bit_generator.philox", [key], bits((5,), jnp.uint32, lax.RandomAlgorithm.RNG_PHILOX))
    case("rng_bit_generator.default", [key], bits((4,), jnp.uint32, lax.RandomAlgorithm.RNG_DEFAULT))


def special():
    x, unit, pos = f(-2.5, -0.3, 0.4, 1.7), f(-0.9, -0.1, 0.5, 0.99), f(0.2, 1, 2.5, 30)
    s = scipy.special
    wide = lambda g, v: g(v.astype(np.float64)).astype(F)
    for name, g, v in [("acos", np.arccos, unit), ("acosh", np.arccosh, pos + 1), ("asin", np.arcsin, unit),
                       ("asinh", np.arcsinh, x), ("atan", np.arctan, x), ("atanh", np.arctanh, unit),
                       ("bessel_i1e", s.i1e, x), ("cosh", np.cosh, x), ("digamma", s.digamma, pos),
                       ("erf", s.erf, x), ("erf_inv", s.erfinv, unit), ("erfc", s.erfc, x), ("lgamma", s.gammaln, pos),
                       ("sinh", np.sinh, x)]:
        case(name, [v], wide(g, v), 3e-5)
    inf = f(math.inf, -math.inf, math.nan, 0)
    case("is_inf", [inf], np.isinf(inf))
    case("is_neg_inf", [inf], np.isneginf(inf))
    case("is_pos_inf", [inf], np.isposinf(inf))
    case("next_after", [f(1, 0, -2), f(2, -1, 0)], np.nextafter(f(1, 0, -2), f(2, -1, 0)), 0)
    n, z = f(1, 2, 3), f(0.7, 1.5, 4)
    case("polygamma", [n, z], s.polygamma(n.astype(int), z.astype(np.float64)).astype(F), 1e-4)
    case("zeta", [f(2, 3.5, 5), z], s.zeta(f(2, 3.5, 5).astype(np.float64), z.astype(np.float64)).astype(F), 1e-4)
    case("erf.bf16", [x], wide(s.erf, x), 1e-2)


for family in (elementwise, binary, conversions, wide, constants, shapes, sugar, reductions, products, convolutions,
               indexing, control, random, special):
    family()
target = pathlib.Path(__file__).resolve().parent.parent / "data" / "hlo_reference.json"
target.parent.mkdir(exist_ok=True)
target.write_text("[\n" + ",\n".join(json.dumps(c) for c in CASES) + "\n]\n")
print(f"{len(CASES)} cases in {target.name}")

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

F, I, B = np.float32, np.int32, np.bool_
NAMES = {"float32": "f32", "float64": "f64", "int8": "s8", "int16": "s16", "int32": "s32", "int64": "s64",
         "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "pred", "complex64": "c64",
         "complex128": "c128"}
CASES = []


def number(v):
    if isinstance(v, complex):
        return [number(v.real), number(v.imag)]
    if isinstance(v, float):
        return v if math.isfinite(v) else str(v)
    return int(v)


def array(a):
    a = np.asarray(a)
    data = [number(float(str(v)) if a.dtype == F else v.item()) for v in a.ravel()]  # the shortest digits that say it
    return {"dtype": NAMES[a.dtype.name], "dims": list(a.shape), "data": data}


def case(name, inputs, outputs, tol=None):
    """`tol` is relative and absolute at once; 0 where nothing is given for exact types."""
    outputs = [np.asarray(o) for o in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]
    if tol is None:
        tol = 1e-5 if any(o.dtype.kind in "fc" for o in outputs) else 0
    CASES.append({"name": name, "tol": tol, "inputs": [array(i) for i in inputs], "outputs": [array(o) for o in outputs]})


def f(*v):
    return np.array(v, F)


def counting(*dims, dtype=F):
    return np.arange(math.prod(dims)).reshape(dims).astype(dtype)


def rand(*dims):
    return np.random.default_rng(sum(dims) + 7 * len(dims)).uniform(-1, 1, dims).astype(F)


def elementwise():
    plain, positive = f(-2.5, -0.75, 0, 0.3, 1.5, 4), f(0.01, 0.5, 1, 2.25, 10, 1e6)
    halves = f(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609, -0.2)
    s32 = np.array([-7, -1, 0, 3, 2147483647, -2147483647], I)
    with np.errstate(all="ignore"):
        case("abs", [plain], np.abs(plain))
        case("abs.s32", [s32], np.abs(s32))
        case("cbrt", [plain], np.cbrt(plain))
        case("ceil", [halves], np.ceil(halves), 0)
        case("cosine", [plain], np.cos(plain))
        clz = np.array([0, 1, 255, -1, 16384], np.int16)
        case("count_leading_zeros.s16", [clz], np.array([16, 15, 8, 0, 1], np.int16))
        case("exponential", [plain], np.exp(plain))
        case("exponential_minus_one", [f(-1, 1e-7, 0.5, 3)], np.expm1(f(-1, 1e-7, 0.5, 3)))
        case("floor", [halves], np.floor(halves), 0)
        special = f(0, math.inf, -math.inf, math.nan, 1e38)
        case("is_finite", [special], np.isfinite(special))
        case("log", [positive], np.log(positive))
        case("log_plus_one", [f(-0.5, 1e-7, 0.5, 3)], np.log1p(f(-0.5, 1e-7, 0.5, 3)))
        case("logistic", [plain], scipy.special.expit(plain))
        case("negate", [plain], -plain)
        case("negate.s8", [np.array([-128, -1, 0, 127], np.int8)], np.array([-128, 1, 0, -127], np.int8))
        case("not.s32", [s32], ~s32)
        case("not.pred", [np.array([True, False])], np.array([False, True]))
        case("popcnt.u8", [np.array([0, 1, 255, 170], np.uint8)], np.array([0, 1, 8, 4], np.uint8))
        case("real", [plain], plain)
        case("imag", [plain], np.zeros_like(plain))
        case("round_nearest_afz", [halves], f(-3, -2, -1, 1, 2, 3, 0, 8388609, -0.0), 0)
        case("round_nearest_even", [halves], np.rint(halves), 0)
        case("rsqrt", [positive], 1 / np.sqrt(positive))
        case("sign", [f(-3, 0, 0.1, math.nan)], f(-1, 0, 1, math.nan))
        case("sign.s32", [s32], np.sign(s32))
        case("sine", [plain], np.sin(plain))
        case("sqrt", [f(0, 2, 1e10, -1)], np.sqrt(f(0, 2, 1e10, -1)))
        case("tan", [plain], np.tan(plain))
        case("tanh", [plain], np.tanh(plain))


def binary():
    a, b = f(-2.5, 0, 1.5, 4, -7), f(2, -3, 0.5, -1.5, 3)
    p, q = np.array([True, True, False, False]), np.array([True, False, True, False])
    m, n = np.array([7, -7, 7, -7, 0], I), np.array([2, 2, -2, -2, 3], I)
    u8 = np.array([255, 16, 3, 200], np.uint8), np.array([2, 17, 5, 100], np.uint8)
    case("add", [a, b], a + b)
    big = np.array([2**62, -5, 2**63 - 1], np.int64), np.array([2**61, 7, 1], np.int64)
    with np.errstate(over="ignore"):
        case("add.s64", big, big[0] + big[1])
    case("add.pred", [p, q], p | q)
    bf = lambda x: x.astype(ml_dtypes.bfloat16)
    x, y = f(1.01, 3.3, -100.7), f(0.013, 2.2, 0.4)
    case("add.bf16", [x, y], (bf(x) + bf(y)).astype(F), 4e-3)  # XLA may keep more bits
    case("multiply.f16", [x, y], (x.astype(np.float16) * y.astype(np.float16)).astype(F), 5e-4)
    case("and.s32", [m, n], m & n)
    case("and.pred", [p, q], p & q)
    case("atan2", [a, b], np.arctan2(a, b))
    case("divide", [a, b], a / b)
    case("divide.s32", [m, n], np.array([3, -3, -3, 3, 0], I))
    case("maximum", [a, b], np.maximum(a, b))
    u = np.array([1, 2**32 - 1, 5], np.uint32), np.array([2, 3, 4], np.uint32)
    case("maximum.u32", u, np.maximum(*u))
    case("minimum", [a, b], np.minimum(a, b))
    case("minimum.pred", [p, q], p & q)
    case("multiply", [a, b], a * b)
    case("multiply.u8", u8, u8[0] * u8[1])
    case("or.u8", u8, u8[0] | u8[1])
    case("or.pred", [p, q], p | q)
    base, power = f(2, 0.5, -2, 9, 0), f(10, -3, 3, 0.5, 0)
    case("power", [base, power], base**power)
    case("power.s32", [np.array([2, -3, 5], I), np.array([10, 3, 0], I)], np.array([1024, -27, 1], I))
    case("remainder", [a, b], np.fmod(a, b))
    case("remainder.s32", [m, n], np.fmod(m, n))
    s, by = np.array([1, -16, 2**30, 5], I), np.array([4, 2, 1, 40], I)
    case("shift_left.s32", [s, by], np.array([16, -64, -(2**31), 0], I))
    case("shift_right_arithmetic.s32", [s, by], np.array([0, -4, 2**29, 0], I))
    case("shift_right_logical.s32", [s, by], np.array([0, 2**30 - 4, 2**29, 0], I))
    case("subtract", [a, b], a - b)
    w = np.array([1, 500], np.uint16), np.array([2, 100], np.uint16)
    case("subtract.u16", w, np.array([65535, 400], np.uint16))
    case("xor.s32", [m, n], m ^ n)
    case("xor.pred", [p, q], p ^ q)
    c, d = f(1, 2, math.nan, 3, -0.0), f(2, 2, 1, 1, 0)
    for name, op in dict(eq=np.equal, ne=np.not_equal, lt=np.less, le=np.less_equal, gt=np.greater,
                         ge=np.greater_equal).items():
        case(f"compare.{name}", [c, d], op(c, d))
    t, v = f(-0.0, 1, math.inf, math.nan, -math.inf), f(0, 1, math.nan, math.inf, -1)
    case("compare.lt.total", [t, v], np.array([True, False, True, False, True]))
    case("compare.lt.s32", [np.array([-1, 1], I), np.array([1, -1], I)], np.array([True, False]))
    unsigned = np.array([2**32 - 1, 1], np.uint32), np.array([1, 2**32 - 1], np.uint32)
    case("compare.lt.u32", unsigned, np.array([False, True]))
    case("compare.gt.pred", [p, q], p & ~q)


def conversions():
    a, b, p = f(1, 2, 3), f(-1, -2, -3), np.array([True, False, True])
    case("select", [p, a, b], np.where(p, a, b), 0)
    case("select.scalar", [np.bool_(False), a, b], b, 0)
    x = f(-5, 0.5, 7)
    case("clamp", [F(-1), x, F(2)], np.clip(x, -1, 2), 0)
    case("clamp.arrays", [f(0, 1, 2), x, f(1, 3, 4)], f(0, 1, 4), 0)
    case("convert.f32.s32", [f(-2.7, 2.7, 0, 1e5)], np.array([-2, 2, 0, 100000], I))
    case("convert.s32.f32", [np.array([-3, 16777217], I)], f(-3, 16777216), 0)
    case("convert.f32.pred", [f(0, -0.0, 0.1, -3)], np.array([False, False, True, True]))
    case("convert.pred.f32", [p], f(1, 0, 1), 0)
    case("convert.s32.u8", [np.array([0, 255, 17], I)], np.array([0, 255, 17], np.uint8))
    y = f(1.01, -3.14159, 65504, 1e-3)
    case("convert.bf16", [y], y.astype(ml_dtypes.bfloat16).astype(F), 0)
    z = f(1.01, -3.14159, 300, 0.02)
    case("convert.f8e4m3fn", [z], z.astype(ml_dtypes.float8_e4m3fn).astype(F), 0)
    case("convert.s4", [np.array([-8, 7, -1], I)], np.array([-8, 7, -1], I))
    case("bitcast_convert.f32.u32", [y], y.view(np.uint32))
    case("bitcast_convert.f32.u8", [y], y.view(np.uint8).reshape(4, 4))
    case("bitcast_convert.u8.f32", [y.view(np.uint8).reshape(4, 4)], y, 0)
    case("reduce_precision.f16", [y], y.astype(np.float16).astype(F), 0)
    case("reduce_precision.bf16", [y], y.astype(ml_dtypes.bfloat16).astype(F), 0)


def wide():
    re, im = f(1, -2, 0.5), f(0.5, 1.5, -3)
    c, d = (re + 1j * im).astype(np.complex64), np.array([2 - 1j, -2 + 1.5j, 1j], np.complex64)
    case("complex.c64", [re, im], c)
    case("real.c64", [c], re)
    case("imag.c64", [c], im)
    case("abs.c64", [c], np.abs(c))
    case("exponential.c64", [c], np.exp(c))
    case("log.c64", [c], np.log(c))
    case("sqrt.c64", [c], np.sqrt(c))
    case("sign.c64", [c], c / np.abs(c))
    case("multiply.c64", [c, d], c * d)
    case("divide.c64", [c, d], c / d)
    case("compare.eq.c64", [c, d], c == d)
    case("conj.c64", [c], np.conj(c))
    case("constant.c64", [], [np.full(2, 1.5 - 2j, np.complex64), np.complex64(3)], 0)
    x, y = np.array([0.1, 2.5, 7]), np.array([1.5, -2, 0.3])
    case("sine.f64", [x], np.sin(x), 1e-14)
    case("exponential.f64", [x], np.exp(x), 1e-14)
    case("add.f64", [x, y], x + y, 0)
    case("power.f64", [x, y], x**y, 1e-13)
    case("lgamma.f64", [x], scipy.special.gammaln(x), 1e-12)
    case("multiply.c128", [x + 1j * y, y - 2j * x], (x + 1j * y) * (y - 2j * x), 1e-14)


def constants():
    case("constant.f32", [], [f(0.1, 0.1), F(math.inf), F(-math.inf), F(math.nan), F(1e-30), F(7)], 0)
    case("constant.int", [], [np.int8(-128), np.uint8(255), np.int64(-(2**63)), np.uint64(2**64 - 1), I(3)])
    case("constant.pred", [], [np.array([True, True]), np.bool_(False)])
    case("constant.minus_zero", [], F(-math.inf), 0)
    t = lambda v, dtype: np.array(v).astype(dtype).astype(F)
    case("constant.half", [], [t(0.1, ml_dtypes.bfloat16), t(0.1, np.float16), F(-math.inf), t(3.3, ml_dtypes.float8_e5m2),
                               F(math.nan)], 0)
    case("constant.lowest", [], [I(-(2**31)), np.uint16(65535), F(ml_dtypes.finfo(ml_dtypes.bfloat16).max), F(65504), F(-448)], 0)
    case("constant.empty", [], np.zeros((0, 3), F))
    case("dense.f32", [], np.array([[1, -2.5], [3, 1e30]], F), 0)
    case("dense.splat", [], np.array([7, 7, 7], I))
    case("dense.pred", [], np.array([[1, 0, 1], [1, 0, 0], [0, 1, 1]], B))
    case("dense.s4", [], np.array([-8, -1, 0, 7], I))
    case("dense.bf16", [], f(1, -2), 0)
    case("dense.list", [], [np.array([1, -2, 3], np.int64), np.array([255], np.uint8), np.zeros(0, I)])
    case("iota", [], [np.array([[0, 0, 0], [1, 1, 1]], I), np.array([[0, 1, 2]] * 2, F), np.arange(4, dtype=np.uint8)])


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
    case("select_and_scatter", [a, source], out)
    case("select_and_scatter.overlap", [f(1, 9, 2, 3), f(1, 2, 4, 8)], f(0, 7, 0, 8))


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

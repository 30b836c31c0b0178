"""What the reference scripts share: the list of cases and how arrays are written down."""
import math

import numpy as np

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

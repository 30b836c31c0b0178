"""Writes tests/data/tensors/ with numpy, ml_dtypes and the safetensors package: what our readers are tested on.

Run once, by hand, with numpy 2.4, ml_dtypes 0.6 and safetensors 0.8; the files are committed.
"""
import pathlib

import ml_dtypes
import numpy as np
from numpy.lib import format as npy
from safetensors import TensorSpec, serialize_file
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).parent / "tensors"
OUT.mkdir(exist_ok=True)


def save(name, array, version=None, fortran=False):
    array = np.asarray(array, order="F" if fortran else "C")
    with open(OUT / f"{name}.npy", "wb") as f:
        npy.write_array(f, array, version=version, allow_pickle=False)


values = np.arange(6) - 2  # -2 … 3
for kind in ["i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]:
    save(f"plain_{kind}", values.astype(kind).reshape(2, 3))
for kind in ["u1", "u2", "u4", "u8"]:
    save(f"plain_{kind}", (np.arange(6) + 250).astype(kind).reshape(2, 3))
save("plain_b1", np.array([[True, False, True], [False, False, True]]))
save("bf16", values.astype(ml_dtypes.bfloat16).reshape(2, 3))
save("f8e5m2", values.astype(ml_dtypes.float8_e5m2).reshape(2, 3))
save("opaque", values.astype(ml_dtypes.float8_e4m3fn))  # <V1: which 8-bit float, nobody can tell

save("fortran", np.arange(24, dtype="<f4").reshape(2, 3, 4), fortran=True)
save("fortran_i2", np.arange(6, dtype="<i2").reshape(3, 2), fortran=True)
save("big_f4", (np.arange(6) - 2).astype(">f4").reshape(2, 3))
save("big_c8", np.array([1 + 2j, -3.5 + 0.25j], dtype=">c8"))
save("big_fortran", np.arange(6, dtype=">i8").reshape(2, 3), fortran=True)
save("scalar", np.array(7.5, dtype="<f8"))
save("empty", np.zeros((0, 3), dtype="<i4"))
for v in [(2, 0), (3, 0)]:
    save(f"version{v[0]}", np.arange(3, dtype="<i4"), version=v)
save("text", np.array(["a", "bc"]))
save("record", np.array([(1, 2.0)], dtype=[("é", "<i4"), ("b", "<f4")]))

ints = {k: np.arange(6).reshape(2, 3).astype(k) for k in
        ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]}
floats = {k: values.reshape(2, 3).astype(k) for k in ["float16", "float32", "float64", "complex64"]}
small = {k: values.reshape(2, 3).astype(getattr(ml_dtypes, k)) for k in
         ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]}
small["float8_e8m0fnu"] = np.array([0.5, 1, 2, 4]).astype(ml_dtypes.float8_e8m0fnu)
other = {"bool": np.array([True, False, True]), "scalar": np.array(3.5, dtype="float32"),
         "empty": np.zeros((0, 4), dtype="float32"), "näme.with/odd \"letters\"": np.ones(1, dtype="float32")}
save_file({**ints, **floats, **small, **other}, OUT / "all.safetensors", metadata={"format": "np", "note": "ö"})

packed = np.array([0x21, 0x43, 0xF5], dtype="uint8")  # the halves 1 2 3 4 5 15, low half first
serialize_file({"f4": TensorSpec(dtype="float4_e2m1fn_x2", shape=[3], data_ptr=packed.ctypes.data, data_len=3)},
               OUT / "f4.safetensors")
save_file({}, OUT / "none.safetensors")

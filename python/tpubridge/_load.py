"""Brings the library into the process: the extension, for the torch that it was built for."""
import importlib.util
import os
import re
import sys


def _minor(version):
    match = re.match(r"(\d+)\.(\d+)", version)
    return match.groups() if match else None


def check_torch(here, built):
    """torch changes the layout of what a device registers with from one minor version to the next."""
    if _minor(here) != _minor(built):
        major, minor = _minor(built)
        raise ImportError(
            f"this tpubridge was built for torch {major}.{minor}, and torch {here} is installed. "
            f"Install torch {major}.{minor} (pip install 'torch=={major}.{minor}.*'), or build tpubridge for this one: "
            "make wheel TORCH=<the version>."
        )


def load():
    from tpubridge import _build_info

    spec = importlib.util.find_spec("torch")
    if spec is None:
        raise ImportError("tpubridge needs torch: pip install torch==" + _build_info.TORCH)
    import torch

    check_torch(torch.__version__, _build_info.TORCH)
    ours = sys.modules.get("tpubridge.tpu")
    if torch._C._get_privateuse1_backend_name() not in ("privateuseone", "tpu") or getattr(torch, "tpu", ours) is not ours:
        raise ImportError(
            "another package has registered a device with this torch already "
            f"({torch._C._get_privateuse1_backend_name()}), and there is room for one. "
            "Import tpubridge alone, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 where the other loads by itself."
        )
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # libtpu would ask a server that only Google's machines have
    from tpubridge import _C

    return _C

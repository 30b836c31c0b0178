"""torch.device("tpu") in Python: TPUs, and whatever else a PJRT plugin drives; without one, XLA's CPU.

    import torch, tpubridge
    model.to("tpu"); x = x.to("tpu")

Ops are traced; where a value is needed (item(), cpu(), print) what is pending becomes one program, which is compiled once
and found again. docs/from-python.md
"""
from tpubridge import _load

_C = _load.load()

import torch  # noqa: E402

from tpubridge import errors, tpu  # noqa: E402
from tpubridge._build_info import VERSION as __version__  # noqa: E402


def _register():
    if hasattr(torch.Tensor, "tpu"):
        return
    torch.utils.rename_privateuse1_backend("tpu")
    torch._register_device_module("tpu", tpu)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)


_register()

from tpubridge._command import fit  # noqa: E402
from tpubridge._device import (  # noqa: E402
    expect_no_compile,
    explain,
    metrics,
    reopen_device,
    report,
    set_check_indices,
    set_fallback,
    set_memory_limit,
    sync,
)
from tpubridge._export import ExportedProgram, export_program, save_package  # noqa: E402
from tpubridge._models import LoadedModule, load  # noqa: E402
from tpubridge._steps import CompiledStep, compile  # noqa: E402

__all__ = [
    "CompiledStep", "ExportedProgram", "LoadedModule", "compile", "errors", "expect_no_compile", "explain",
    "export_program", "fit", "load", "metrics", "reopen_device", "report", "save_package", "set_check_indices",
    "set_fallback", "set_memory_limit", "sync", "tpu", "__version__",
]

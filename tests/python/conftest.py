"""Tests of the Python package, beside the CPU's values: PYTHONPATH=build/python python -m pytest tests/python"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TPUBRIDGE_CACHE"] = "0"  # compiles are counted: none may come from a run before

import pytest
import torch
import tpubridge

collect_ignore_glob = ["make_*.py", "check_saved.py", "load_library.py", "op_database.py"]


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)
    yield
    tpubridge.set_memory_limit(0)


def close(got, want, tolerance=1e-5):
    """The same values, types and sizes, wherever they are; of tuples, lists and dicts too."""
    if isinstance(want, dict):
        assert got.keys() == want.keys()
        got, want = list(got.values()), list(want.values())
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want):
            close(g, w, tolerance)
    elif isinstance(want, torch.Tensor):
        torch.testing.assert_close(
            got.detach().cpu(), want.detach().cpu(), rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False)
    else:
        assert got == want


@pytest.fixture
def run_python(tmp_path):
    """Runs a program in a process of its own; gives its output. It must end with `status`."""
    import subprocess
    import sys

    def run(text, status=0, timeout=120):
        file = tmp_path / "program.py"
        file.write_text(text)
        ran = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=timeout)
        assert ran.returncode == status, f"status {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout + ran.stderr

    return run

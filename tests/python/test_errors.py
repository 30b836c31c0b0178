"""Errors of ours in Python: their classes, what they carry, and that the device is usable afterwards."""
import inspect
import pathlib
import pickle
import re

import pytest
import torch
import tpubridge
from conftest import close
from tpubridge import errors

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_hierarchy_is_that_of_cpp():
    declared = {}
    for header in ("errors.h", "backend_errors.h"):
        text = re.sub(r"//.*", "", (ROOT / "tpubridge/base" / header).read_text())
        for name, bases in re.findall(r"^TPUBRIDGE_ERROR\((\w+),\s*([^;]*?)\);", text, re.M | re.S):
            declared[name] = re.findall(r"public virtual (\w+)", bases)
    assert len(declared) > 20
    here = {n: c for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, errors.Error) and n != "Error"}
    assert here.keys() == declared.keys()
    for name, bases in declared.items():
        assert [b.__name__ for b in here[name].__bases__ if issubclass(b, errors.Error)] == bases, name
    assert issubclass(errors.Error, RuntimeError) and issubclass(errors.ArgumentError, ValueError)
    assert issubclass(errors.TPUOutOfMemoryError, torch.OutOfMemoryError)


def test_errors_of_functions(tmp_path):
    with pytest.raises(errors.FileError) as e:
        tpubridge.load(tmp_path / "nothing.pt2")
    assert e.value.details and e.value.hint and str(tmp_path) in str(e.value) and e.value.code != "ok"
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is errors.FileError and again.details == e.value.details and str(again) == str(e.value)
    with pytest.raises(errors.ArgumentError, match="allow, warn or error"):
        tpubridge.set_fallback("sometimes")


def test_errors_of_ops_are_ours():
    tpubridge.set_memory_limit(1 << 20)
    big = torch.ones(1 << 20, device="tpu")
    for read in (lambda: (big + 1).cpu(), lambda: (big * 2).sum().item(), lambda: torch.ones(1 << 22).to("tpu").cpu()):
        with pytest.raises(errors.TPUMemoryLimitError) as e:
            read()
        assert isinstance(e.value, torch.OutOfMemoryError) and e.value.hint
    tpubridge.set_memory_limit(0)
    close(big + 1, torch.full((1 << 20,), 2.0))


def test_errors_in_backward_come_out_as_ours():
    w = torch.ones(1 << 16, device="tpu", requires_grad=True)
    loss = (w * 2).sum()
    before = tpubridge.set_fallback("error")
    try:
        class Refused(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                torch.special.bessel_j1(g)  # no lowering
                return g

        with pytest.raises(errors.UnsupportedError) as e:
            (loss + Refused.apply(w).sum()).backward()
        assert "op" in e.value.details
    finally:
        tpubridge.set_fallback(before)
    (w * 3).sum().backward()
    assert w.grad is not None


def test_an_exception_of_python_in_the_middle_of_a_step():
    w = torch.ones(3, device="tpu", requires_grad=True)

    def step(fail):
        y = w * 2
        if fail:
            raise KeyError("mine")
        y.sum().backward()

    run = tpubridge.compile(step)
    for fail in (False, True, False):
        try:
            run(fail)
        except KeyError:
            assert fail
    close(w.grad, torch.full((3,), 4.0))
    hook = w.register_hook(lambda g: (_ for _ in ()).throw(ZeroDivisionError("hook")))
    with pytest.raises(ZeroDivisionError):
        (w * 2).sum().backward()
    hook.remove()
    (w * 1).sum().backward()
    close(w.grad, torch.full((3,), 5.0))


WRONG = {
    "shapes": lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
    "matmul": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "dim": lambda d: torch.ones(2, device=d).sum(3),
    "index": lambda d: torch.ones(2, device=d)[5],
    "view": lambda d: torch.ones(2, 3, device=d).t().view(6),
    "dtype": lambda d: torch.ones(2, dtype=torch.bool, device=d).neg(),
    "in place": lambda d: torch.ones(2, device=d).add_(torch.ones(3, device=d)),
    "leaf": lambda d: torch.ones(2, device=d, requires_grad=True).add_(1),
    "twice": lambda d: [x.backward() for x in [torch.ones(1, device=d, requires_grad=True).exp()] * 2],
    "item": lambda d: torch.ones(2, device=d).item(),
    "bool": lambda d: bool(torch.ones(2, device=d)),
    "cat": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)]),
    "linear": lambda d: torch.nn.functional.linear(torch.ones(2, 3, device=d), torch.ones(4, 5, device=d)),
    "reshape": lambda d: torch.ones(5, device=d).reshape(2, 3),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise_what_the_cpu_raises(name):
    with pytest.raises(Exception) as want:
        WRONG[name]("cpu")
    with pytest.raises(Exception) as got:
        WRONG[name]("tpu")
    assert got.type is want.type


def test_two_devices_are_named():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2) + torch.ones(2, device="tpu")


def test_indices_are_checked_where_asked():
    before = tpubridge.set_check_indices(True)
    try:
        with pytest.raises(IndexError):
            torch.ones(3, device="tpu")[torch.tensor([7], device="tpu")]
    finally:
        tpubridge.set_check_indices(before)

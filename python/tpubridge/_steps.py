"""tpubridge.compile: a function whose work is one program a call.

Python is run at every call. A function of Python may read anything (numbers of optimizers, attributes, globals, files), and
nothing can show that it will read the same next time, so nothing is skipped: what is saved are the compiles and the
launches. For a call whose Python is not run again there is torch.compile(backend="tpubridge"), whose guards are Dynamo's.
"""
import functools
import warnings

import torch

from tpubridge import _C, errors


class CompiledStep:
    """What tpubridge.compile gives: call it like the function. `report()` tells what its calls were."""

    _WARMUP = 8  # calls; who compiles anew in most of them is told once

    def __init__(self, function, name=None):
        if not callable(function):
            raise errors.ArgumentError(f"tpubridge.compile takes a function, not {type(function).__name__}")
        self._function = function
        self._name = name or getattr(function, "__name__", type(function).__name__)
        self._calls = self._programs = self._compiles = self._compiling_calls = 0
        self._warned = False
        functools.update_wrapper(self, function, updated=())

    def __get__(self, instance, owner=None):  # as a decorator of a method
        return self if instance is None else functools.partial(self.__call__, instance)

    def __call__(self, *args, **kwargs):
        compiles, executions = _C.compile_count(), _C.execution_count()
        result = self._function(*args, **kwargs)
        _C.sync(None)  # begins the program; what reads a result waits for it
        compiled = _C.compile_count() - compiles
        self._calls += 1
        self._compiles += compiled
        self._compiling_calls += compiled > 0
        self._programs += _C.execution_count() - executions
        if not self._warned and self._calls >= self._WARMUP and 2 * self._compiling_calls > self._calls:
            self._warned = True
            warnings.warn(
                f"the step {self._name!r} compiled in {self._compiling_calls} of its {self._calls} calls: "
                "tpubridge.explain() says what changed",
                stacklevel=2,
            )
        return result

    def report(self):
        """calls; traced: all of them, since Python runs at every call; programs that ran and compiles during them."""
        return {
            "name": self._name,
            "calls": self._calls,
            "traced": self._calls,
            "replayed": 0,
            "programs": self._programs,
            "compiles": self._compiles,
            "why_traced": "Python runs at every call: what it reads cannot be watched",
        }


def compile(function=None, *, name=None):
    """The function, with all that it does on the device as one program a call: forward, backward and optimizer together.

    Right whatever the function reads or writes: it runs at every call. Values that it reads on the host on its way (item(),
    print) end a program there. Also as a decorator."""
    if function is None:
        return functools.partial(compile, name=name)
    if isinstance(function, torch.nn.Module):
        return CompiledStep(function, name or type(function).__name__)
    return CompiledStep(function, name)

"""Functions and modules as StableHLO programs, and packages of them that run without torch. docs/packages.md"""
import os
from collections.abc import Mapping, Sequence

import torch
from torch.utils import _pytree as pytree

from tpubridge import _C, errors


class ExportedProgram:
    """StableHLO (`text`), and what it takes and gives: `inputs`, `outputs` and `weights` as (name, shape), `parameters`
    the names in the program's order."""

    def __init__(self, made):
        self._made = made
        self.__dict__.update(made.describe())

    def __repr__(self):
        return f"ExportedProgram(inputs={self.inputs}, outputs={self.outputs}, weights={len(self.weights)})"


def _named_outputs(result):
    flat, _ = pytree.tree_flatten_with_path(result)
    names, tensors = [], []
    for path, value in flat:
        if value is None:
            continue
        if not isinstance(value, torch.Tensor):
            raise errors.ArgumentError(f"an exported function must give tensors, not {type(value).__name__}")
        name = ".".join(str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", k)))) for k in path)
        names.append(name)
        tensors.append(value)
    return names, tensors


def export_program(function, inputs, *, modules=None, weights_as_constants=False, name=None):
    """The function (or module) as StableHLO, traced on examples: shapes and types count, values do not.

    `inputs`: a dict of tensors, given by name. Weights are named by `modules` ({prefix: module}; the function itself where
    it is a module). A function that writes buffers, draws random numbers or reads values on the host is refused with an
    UnsupportedError."""
    if not isinstance(inputs, Mapping) or not all(isinstance(t, torch.Tensor) for t in inputs.values()):
        raise errors.ArgumentError("inputs must be a dict of names and tensors")
    if modules is None:
        modules = {"": function} if isinstance(function, torch.nn.Module) else {}
    parameters, buffers = [], []
    for prefix, module in modules.items():
        dot = prefix + "." if prefix else ""
        parameters += [(dot + n, p) for n, p in module.named_parameters()]
        buffers += [(dot + n, b) for n, b in module.named_buffers()]
    keys = list(inputs)

    def run(tensors):
        names, results = _named_outputs(function(**dict(zip(keys, tensors))))
        return ([] if names == [""] or all(n.isdigit() for n in names) else names), results

    with torch.no_grad():
        made = _C.export_program(
            list(inputs.items()), run, parameters, buffers, weights_as_constants,
            name or getattr(function, "__name__", type(function).__name__))
    return ExportedProgram(made)


def save_package(path, function, inputs, *, tpus=(), this_machine=True, modules=None, name=None):
    """Writes a package (.tbp): a program for each set of inputs (a dict, or a list of dicts: buckets), weights once, and
    executables for this machine and for the TPUs named ("v6e:1x1", compiled by libtpu in a child). Returns what was
    written. `tpubridge run model.tbp` runs it, with no torch."""
    sets = [inputs] if isinstance(inputs, Mapping) else inputs
    if not isinstance(sets, Sequence) or not sets:
        raise errors.ArgumentError("inputs must be a dict of names and tensors, or a list of such dicts")
    name = name or getattr(function, "__name__", type(function).__name__)
    programs = [export_program(function, one, modules=modules, name=name)._made for one in sets]
    return _C.save_package(os.fspath(path), name, programs, this_machine, list(tpus))

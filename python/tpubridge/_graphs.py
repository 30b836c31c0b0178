"""The backend of torch.compile: graphs of Dynamo and AOTAutograd as programs that are known after two calls.

A graph hangs on its arguments alone, and Dynamo's guards say when it holds: so a call need not be traced again. The same
engine stands behind it as behind tpubridge::compile in C++. What a graph cannot promise (ops of other libraries, whose
Python may do anything; control flow that reads values on the host) is traced at each call.
"""
import operator
import struct
import threading

import torch
from torch.utils import _pytree as pytree

from tpubridge import _C

_PURE_NAMESPACES = {"aten", "prims", "prim", "_c10d_functional"}
_count_lock = threading.Lock()
_count = 0


def _next_name():
    global _count
    with _count_lock:
        _count += 1
        return f"graph {_count}"


def _why_not(graph_module):
    """What keeps a graph from being replayed; empty where nothing does."""
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            if not isinstance(_attribute(graph_module, node.target), torch.Tensor):
                return f"it has a graph inside ({node.target})"
        elif node.op == "call_function":
            target = node.target
            if isinstance(target, torch._ops.OpOverload):
                if target.namespace not in _PURE_NAMESPACES:
                    return f"{target} is an op of another library"
            elif not (getattr(target, "__module__", None) in ("_operator", "math", "torch.sym")
                      or target in (operator.getitem, min, max, round, int, float)
                      or getattr(target, "__name__", "").startswith("sym_")):
                return f"{getattr(target, '__name__', target)} is no op of torch"
        elif node.op not in ("placeholder", "output"):
            return f"it calls {node.target}"
    return ""


def _attribute(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _word(value):
    """64 bits that tell a number from others."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value % 2**64
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def _plain(t):
    return type(t) in (torch.Tensor, torch.nn.Parameter) and t.layout is torch.strided and t.device.type in ("tpu", "cpu")


class Graph:
    """A graph as a function of a list, which it empties."""

    def __init__(self, graph_module):
        self._module = graph_module
        self._name = _next_name()
        self.why_not = _why_not(graph_module)
        self._replayed = _C.Replayed(self._name)
        places = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
        (output,) = [n for n in graph_module.graph.nodes if n.op == "output"]
        results, self._spec = pytree.tree_flatten(output.args[0], is_leaf=lambda x: isinstance(x, torch.fx.Node))
        # Arguments that are results are handed through as they are.
        self._through = {i: places.index(r) for i, r in enumerate(results) if r in places}

    def __call__(self, inputs):
        values = list(inputs)
        inputs.clear()
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        numbers = [v for v in values if not isinstance(v, torch.Tensor)]
        if (
            self.why_not
            or torch._C._len_torch_dispatch_stack() > 0
            or not all(type(n) in (int, bool, float) for n in numbers)
            or not all(_plain(t) for t in tensors)
            or not any(t.device.type == "tpu" for t in tensors)
        ):
            return self._module(*values)
        kinds = [isinstance(v, torch.Tensor) for v in values]

        def run(given):
            given = iter(given)
            rest = iter(numbers)
            results = pytree.tree_leaves(
                self._module(*[next(given) if is_tensor else next(rest) for is_tensor in kinds]),
                is_leaf=lambda x: x is None)
            out, form = [], []
            for i, r in enumerate(results):
                if i in self._through:
                    form.append(None)
                elif isinstance(r, torch.Tensor):
                    out.append(r.detach())
                    form.append(True)
                else:
                    form.append((r,))
            return out, form

        others = [len(kinds), *(_word(n) for n in numbers), *(int(type(n) is float) for n in numbers)]
        out, form = self._replayed.call(run, tensors, others)
        out = iter(out)
        results = [
            values[self._through[i]] if f is None else next(out) if f is True else f[0] for i, f in enumerate(form)
        ]
        return pytree.tree_unflatten(results, self._spec)

    def report(self):
        report = self._replayed.report()
        if self.why_not:
            report["why_traced"] = self.why_not
        return report


def _compiler(graph_module, example_inputs):
    graph = Graph(graph_module)

    def call(values):
        return graph(values)

    call._boxed_call = True
    return call


def backend(graph_module, example_inputs, **options):
    """torch.compile(backend="tpubridge")."""
    if options.pop("mode", None) or options.pop("options", None) or options:
        from tpubridge import errors

        raise errors.ArgumentError("the backend tpubridge takes no mode and no options")
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(
        fw_compiler=_compiler, bw_compiler=_compiler, inference_compiler=_compiler, keep_inference_input_mutations=True
    )(graph_module, example_inputs)

"""Random small programs beside the CPU: views, writes in place, types, gradients, branches on values, compiled and not.

TPUBRIDGE_PROGRAMS=2000 TPUBRIDGE_SEED=5 python -m pytest tests/python/test_random.py for more; a failure prints its program.
"""
import os
import random

import pytest
import torch
import tpubridge  # noqa: F401

COUNT = int(os.environ.get("TPUBRIDGE_PROGRAMS", "40"))
SEED = int(os.environ.get("TPUBRIDGE_SEED", "1"))


class Writer:
    """A program as lines of Python over tensors a, b, c, …; it is run on each device."""

    def __init__(self, seed, gradients, branches):
        self.random = random.Random(seed)
        self.lines, self.shapes, self.gradients, self.branches = [], {}, gradients, branches
        for name in "ab":
            self.shapes[name] = tuple(self.random.choice([1, 2, 3, 4]) for _ in range(self.random.randint(1, 3)))
        self.start = dict(self.shapes)

    def pick(self, want=lambda s: True):
        found = [n for n, s in self.shapes.items() if want(s)]
        return self.random.choice(found) if found else None

    def put(self, text, shape):
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.shapes[name] = tuple(shape)

    def step(self):
        r, kind = self.random, self.random.randint(0, 15)
        x = self.pick()
        s = self.shapes[x]
        d = r.randrange(len(s)) if s else None
        number = round(r.uniform(-2, 2), 2)
        if kind == 0:
            self.put(f"torch.{r.choice(['sin', 'tanh', 'sigmoid', 'relu', 'abs', 'neg', 'square'])}({x})", s)
        elif kind == 1:
            self.put(f"{x} {r.choice('+-*')} {number}", s)
        elif kind == 2:
            y = self.pick(lambda o: o == s or o == ())
            self.put(f"{x} {r.choice('+-*')} {y}", s)
        elif kind == 3 and s:
            keep = r.random() < 0.5
            self.put(f"{x}.{r.choice(['sum', 'mean', 'amax', 'prod', 'std'][:4])}({d}, keepdim={keep})",
                     s[:d] + ((1,) if keep else ()) + s[d + 1:])
        elif kind == 4 and len(s) > 1:
            e = r.randrange(len(s))
            t = list(s)
            t[d], t[e] = t[e], t[d]
            self.put(f"{x}.transpose({d}, {e})", t)
        elif kind == 5 and s and s[d] > 1:
            a = r.randrange(s[d] - 1)
            self.put(f"{x}.narrow({d}, {a}, {s[d] - a})", s[:d] + (s[d] - a,) + s[d + 1:])
        elif kind == 6 and s:
            self.put(f"{x}.select({d}, {r.randrange(-s[d], s[d])})", s[:d] + s[d + 1:])
        elif kind == 7:
            self.put(f"{x}.reshape(-1)", (torch.Size(s).numel(),))
        elif kind == 8 and len(s) == 2:
            self.put(f"{x} @ {x}.t()", (s[0], s[0]))
        elif kind == 9 and s:
            self.put(f"{x}.{r.choice(['softmax', 'cumsum', 'flip', 'log_softmax'])}({d})", s)
        elif kind == 10 and s:
            self.put(f"torch.cat([{x}, {x} * {number}], {d})", s[:d] + (2 * s[d],) + s[d + 1:])
        elif kind == 11:
            self.put(f"torch.where({x} > {number}, {x}, {x} * 0.5)", s)
        elif kind == 12:
            dtype = r.choice(["float64", "int32", "bfloat16", "bool"])
            self.put(f"{x}.detach().clamp(-100, 100).to(torch.{dtype}).to(torch.float32)" if dtype in ("bfloat16", "float64")
                     else f"{x}.detach().clamp(-100, 100).mul(4).round().to(torch.{dtype}).to(torch.float32)", s)
        elif kind == 13 and not self.gradients:
            self.lines.append(f"{x}.{r.choice(['mul_', 'add_', 'clamp_max_', 'fill_'])}({number})")
        elif kind == 14 and not self.gradients and s:
            y = self.pick(lambda o: o == s[:d] + s[d + 1:])
            if y:
                self.lines.append(f"{x}.select({d}, {r.randrange(s[d])}).copy_({y})")
        elif kind == 15 and self.branches and not self.gradients:
            name = f"t{len(self.lines)}"
            self.lines.append(f"{name} = {x} * 2 if {x}.detach().sum().item() > {number} else {x} - 1")
            self.shapes[name] = s

    def text(self, steps):
        for _ in range(steps):
            self.step()
        return "\n".join(self.lines)


def run(text, start, device, gradients, wrap):
    names = list(start)

    def program(*given):
        space = {"torch": torch, **dict(zip(names, given))}
        exec(text, space)
        return [space[n] for n in space if n in names or (n[0] == "t" and n[1:].isdigit())]

    program = wrap(program)
    results = []
    for call in range(3):
        generator = torch.Generator().manual_seed(SEED + call)
        given = [torch.randn(s, generator=generator).to(device).requires_grad_(gradients) for s in start.values()]
        out = program(*given)
        if gradients:
            loss = sum(t.float().square().mean() for t in out if t.requires_grad)
            if isinstance(loss, torch.Tensor):
                loss.backward()
            out = [*out, *[g.grad for g in given if g.grad is not None]]
        results.append([t.detach().cpu() for t in out])
    return results


WRAPS = {"traced": lambda f: f, "step": tpubridge.compile}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("wrap", WRAPS)
def test_programs(gradients, wrap):
    for seed in range(SEED * 100000, SEED * 100000 + COUNT):
        writer = Writer(seed, gradients, branches=True)
        text = writer.text(12)
        want = run(text, writer.start, "cpu", gradients, lambda f: f)
        got = run(text, writer.start, "tpu", gradients, WRAPS[wrap])
        for call, (g, w) in enumerate(zip(got, want)):
            assert len(g) == len(w)
            for i, (a, b) in enumerate(zip(g, w)):
                scale = max(1.0, float(b.abs().max()) if b.numel() else 1.0)
                assert a.shape == b.shape and a.dtype == b.dtype and torch.allclose(
                    a, b, rtol=1e-3, atol=1e-4 * scale, equal_nan=True), (
                    f"seed {seed}, call {call}, value {i}\n{writer.start}\n{text}\n{a}\n{b}")


GRAPHS = max(COUNT // 8, 3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("gradients", [False, True])
def test_graphs_of_torch_compile(gradients):
    for seed in range(SEED * 100000 + 50000, SEED * 100000 + 50000 + GRAPHS):
        writer = Writer(seed, gradients, branches=False)
        text = writer.text(10)
        names = list(writer.start)
        space = {"torch": torch}
        made = [n for n in writer.shapes if n not in names]
        exec("def program(" + ", ".join(names) + "):\n    " + (text or "pass").replace("\n", "\n    ")
             + "\n    return [" + ", ".join([*names, *made]) + "]", space)
        torch._dynamo.reset()
        compiled = torch.compile(space["program"], backend="tpubridge")
        for call in range(4):
            generator = torch.Generator().manual_seed(SEED + call)
            inputs = [torch.randn(s, generator=generator) for s in writer.start.values()]
            both = []
            for device, f in (("cpu", space["program"]), ("tpu", compiled)):
                given = [t.clone().to(device).requires_grad_(gradients) for t in inputs]
                out = f(*given)
                if gradients:
                    loss = sum(t.float().square().mean() for t in out if t.requires_grad)
                    loss.backward()
                    out = [*out, *[g.grad for g in given]]
                both.append([t.detach().cpu() for t in out])
            for i, (b, a) in enumerate(zip(*both)):
                scale = max(1.0, float(b.abs().max()) if b.numel() else 1.0)
                assert torch.allclose(a, b, rtol=1e-3, atol=1e-4 * scale, equal_nan=True), (
                    f"seed {seed}, call {call}, value {i}\n{writer.start}\n{text}\n{a}\n{b}")

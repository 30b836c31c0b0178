"""torch's own database of ops (its samples, with gradients) on the device, each beside the CPU.

op_database.py PATH/libtpubridge.so [--dtype float32] [--only add,nn.functional.glu] [--samples 3] [--json FILE]
op_database.py PATH/libtpubridge.so --errors    the database's wrong calls: are they refused, in torch's words?
op_database.py PATH/libtpubridge.so --changed   its samples with another number in one place: like the CPU still?

Prints what differs, what throws, what ends the process, and which ops are computed on the CPU; ends with status 1
where there is any of the first three. Not told are ops that draw random numbers or give memory as it is, places of
equal elements in an order that torch leaves open, and gradients that rounding decides (see ALLOWED). `make op-database`
runs it. Python's process has words of its own for some errors, and out-of-range indices are not looked at.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import time
import warnings

RANDOM = set("""bernoulli empty empty_like empty_strided new_empty new_empty_strided empty_permuted rand_like randn
randn_like randint randint_like normal multinomial randperm cauchy exponential geometric log_normal uniform
nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout
nn.functional.feature_alpha_dropout nn.functional.rrelu nn.functional.fractional_max_pool2d
nn.functional.fractional_max_pool3d pca_lowrank svd_lowrank nn.functional.multi_head_attention_forward""".split())
# Sparse layouts and half-precision complex numbers, which the device refuses; places that must be on the CPU, for
# CUDA too; a device that the sample names; orders of equal elements; a gradient of cancelling exponentials, as far from
# f64 on the CPU as here.
ALLOWED = set("""sparse.sampled_addmm sparse.mm.reduce to_sparse chalf tensor_split to sort msort argsort topk kthvalue
logcumsumexp native_dropout_backward""".split())
TOLERANCE = {"float32": 5e-4, "complex64": 5e-4, "float64": 1e-8, "complex128": 1e-8, "float16": 2e-2, "bfloat16": 1e-1}


class TooSlow(Exception):
    pass


def too_slow(*_):
    raise TooSlow("too slow")


def compare(got, want, what, device="tpu"):
    import torch
    if not isinstance(want, torch.Tensor):
        return
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, on the CPU {want.dtype}"
    assert got.shape == want.shape, f"{what}: {tuple(got.shape)}, on the CPU {tuple(want.shape)}"
    assert got.device.type == device, f"{what}: it is on {got.device}"
    t = TOLERANCE.get(str(want.dtype).removeprefix("torch."), 0)
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=t, atol=t, equal_nan=True,
                               msg=lambda m: f"{what}: {m.splitlines()[2] if len(m.splitlines()) > 2 else m}")


def moved(device):
    """Copies of the tensors of a sample on the device; factories are told where, too."""
    import torch

    def move(x):
        if isinstance(x, torch.Tensor):
            return x.detach().clone().to(device).requires_grad_(x.requires_grad)
        if isinstance(x, torch.device) or x == "cpu":
            return torch.device(device)
        return x
    return move


def run(op, sample, device, grad_outputs):
    """The results, and the gradients for the given ones (made here where there are none yet)."""
    import torch
    from torch.utils._pytree import tree_flatten
    s = sample.transform(moved(device))
    if "device" in s.kwargs:
        s.kwargs["device"] = device
    torch.manual_seed(1)
    out = tree_flatten(sample.output_process_fn_grad(op.op(s.input, *s.args, **s.kwargs)))[0]
    given = tree_flatten([s.input, s.args, s.kwargs])[0]
    inputs = [x for x in given if isinstance(x, torch.Tensor) and x.requires_grad]
    results = [x for x in out if isinstance(x, torch.Tensor) and x.requires_grad]
    if not inputs or not results:
        return out, []
    if not grad_outputs:
        grad_outputs += [torch.randn(x.shape, dtype=x.dtype) for x in results]
    gradients = torch.autograd.grad(results, inputs, [g.to(device) for g in grad_outputs], allow_unused=True)
    return out, list(gradients)


def check(op, sample, k):
    grad_outputs = []
    try:
        want, want_gradients = run(op, sample, "cpu", grad_outputs)
    except TooSlow:
        raise
    except Exception:  # not for the CPU either
        return
    got, got_gradients = run(op, sample, "tpu", grad_outputs)
    assert len(got) == len(want), f"sample {k}: {len(got)} results, on the CPU {len(want)}"
    import torch
    from torch.utils._pytree import tree_flatten
    parts = tree_flatten([sample.input, sample.args, list(sample.kwargs.items())])[0]
    placed = "device" in sample.kwargs or any(isinstance(x, torch.Tensor) for x in parts)  # else torch's default
    for i, (g, w) in enumerate(zip(got, want)):
        compare(g, w, f"sample {k}, result {i}", "tpu" if placed else "cpu")
    for i, (g, w) in enumerate(zip(got_gradients, want_gradients)):
        assert (g is None) == (w is None), f"sample {k}, gradient {i}: one has none"
        if w is not None:
            compare(g, w, f"sample {k}, gradient {i}")


def words_of(op, sample, device):
    """Of the error that the call gives: its first line, without the name of a device. None where it gives none."""
    s = sample.transform(moved(device))
    if "device" in s.kwargs:
        s.kwargs["device"] = device
    try:
        out = op.op(s.input, *s.args, **s.kwargs)
        str(out)  # what is only traced is computed here
        return None
    except TooSlow:
        raise
    except Exception as e:
        text = str(e).splitlines()[0] if str(e) else ""
        return f"{type(e).__name__}: {text}".replace("tpu:0", "cpu").replace("tpu", "cpu")


def check_errors(op, row, seconds):
    """Each wrong call of the database, on the CPU and on the device."""
    for k, wrong in enumerate(op.error_inputs("cpu")):
        signal.alarm(int(seconds) + 1)
        try:
            want = words_of(op, wrong.sample_input, "cpu")
            got = words_of(op, wrong.sample_input, "tpu") if want else None
            row["samples"] += want == got
            if want != got:
                row["problems"].append(f"wrong call {k}: {str(got)[:150]} | the CPU: {want[:150]}")
        finally:
            signal.alarm(0)


def is_sizes(x):
    return isinstance(x, (tuple, list)) and x and all(type(i) is int for i in x)


def others_for(x):
    """What a stranger might have written instead: numbers out of range, too few or too many of them."""
    if type(x) is int:
        return [v for v in (-7, 7, 0, -1, 3) if v != x]
    if type(x) is float:
        return [-1.5, 0.0, float("nan"), float("inf")]
    if is_sizes(x):
        return [type(x)([v, *x[1:]]) for v in (-7, 7, 0, -1)] + [type(x)(x[1:]), type(x)([*x, 1])]
    return []


def changed(sample):
    """The sample with one argument changed, again and again; and a word that says how."""
    from torch.testing._internal.opinfo.core import SampleInput
    for i, x in enumerate(sample.args):
        for v in others_for(x):
            args = (*sample.args[:i], v, *sample.args[i + 1:])
            yield f"argument {i + 1} = {v}", SampleInput(sample.input, args=args, kwargs=sample.kwargs)
    for key, x in sample.kwargs.items():
        for v in others_for(x):
            yield f"{key} = {v}", SampleInput(sample.input, args=sample.args, kwargs=sample.kwargs | {key: v})


def check_changed(op, samples, row, args):
    start = time.time()
    for k in range(0, len(samples), max(1, len(samples) // args.samples)):
        for how, sample in changed(samples[k]):
            if time.time() - start > args.seconds:
                return
            signal.alarm(int(args.seconds) + 1)
            try:
                want, got = words_of(op, sample, "cpu"), words_of(op, sample, "tpu")
                if want is None and got is None:
                    check(op, sample, k)
                elif (want is None) != (got is None):
                    raise AssertionError(f"{str(got)[:100]} | the CPU: {str(want)[:100]}")
                row["samples"] += 1
            except (Exception, AssertionError) as e:
                row["problems"].append(f"sample {k}, {how}: {str(e).splitlines()[0][:250] if str(e) else ''}")
            finally:
                signal.alarm(0)


def work(args):
    """In a process of its own: a line of JSON when an op begins, and one when it ends."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import torch
    from load_library import load
    library = load(args.library)
    from torch.testing._internal.common_methods_invocations import op_db
    signal.signal(signal.SIGALRM, too_slow)
    dtype = getattr(torch, args.dtype)
    for i, op in list(enumerate(op_db))[args.first:]:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        wanted = name in args.only.split(",") if args.only else op.name not in RANDOM
        if args.errors:
            wanted = op.error_inputs_func is not None and (not args.only or wanted)
        if not wanted or not op.supports_dtype(dtype, "cpu") or op.name.startswith("jiterator"):
            continue
        print(json.dumps({"i": i, "begins": name}), flush=True)
        row = {"i": i, "name": name, "problems": [], "samples": 0}
        before, start = library.tpubridge_cpu_fallback_count(), time.time()
        if args.errors:
            try:
                check_errors(op, row, args.seconds)
            except Exception as e:  # of the database itself: calls for devices that it knows
                row["problems"].append(f"{type(e).__name__}: {str(e)[:100]}")
            print(json.dumps(row | {"fallbacks": 0}), flush=True)
            continue
        gradients = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=gradients))
        if args.changed:
            check_changed(op, samples, row, args)
            samples = []
        for k in range(0, len(samples), max(1, len(samples) // args.samples)):
            if time.time() - start > args.seconds:
                break
            signal.alarm(int(args.seconds) + 1)
            try:
                check(op, samples[k], k)
                row["samples"] += 1
            except (Exception, AssertionError) as e:
                row["problems"].append(f"{type(e).__name__}: {str(e).splitlines()[0][:200] if str(e) else ''}")
            finally:
                signal.alarm(0)
        row["fallbacks"] = library.tpubridge_cpu_fallback_count() - before
        print(json.dumps(row), flush=True)


def rows_of(args):
    """Of workers, one after the other: each goes on behind the op that ended the last."""
    first = 0
    while True:
        command = [sys.executable, __file__, *sys.argv[1:], "--worker", "--first", str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as worker:
            begun = None
            for line in worker.stdout:
                row = json.loads(line)
                begun = row if "begins" in row else None
                if "name" in row:
                    yield row
        if worker.returncode == 0:
            return
        if begun is None:
            sys.exit(f"the worker ended with status {worker.returncode} before it had begun")
        problem = f"the process ended: {worker.returncode}"
        yield {"name": begun["begins"], "problems": [problem], "samples": 0, "fallbacks": 0}
        first = begun["i"] + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--only", default="", help="names of the database, with commas between them")
    parser.add_argument("--samples", type=int, default=3, help="of each op, about")
    parser.add_argument("--seconds", type=float, default=15, help="for each op, about")
    parser.add_argument("--errors", action="store_true", help="the wrong calls of the database")
    parser.add_argument("--changed", action="store_true", help="samples with another number in one place")
    parser.add_argument("--json", help="a file for all rows")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(args)
    rows, wrong = [], 0
    for row in rows_of(args):
        rows.append(row)
        allowed = not args.errors and not {row["name"], row["name"].split(".")[0]}.isdisjoint(ALLOWED)
        told = row["problems"] and not allowed
        wrong += bool(told)
        for problem in row["problems"] if told else []:
            print(f"{row['name']}: {problem}", flush=True)
        if sys.stderr.isatty():
            print(f"\r\x1b[K{len(rows)} ops, {row['name']}", end="", file=sys.stderr, flush=True)
    on_cpu = [r["name"] for r in rows if r["fallbacks"]]
    what = "wrong calls refused as on the CPU" if args.errors else "samples right"
    print(f"\n{args.dtype}: {len(rows)} ops, {sum(r['samples'] for r in rows)} {what}, {wrong} ops with a problem, "
          f"{len(on_cpu)} with a call on the CPU:\n{' '.join(on_cpu)}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

"""Threads, forks, workers, and processes that end."""
import gc
import os
import threading

import pytest
import torch
import tpubridge
from conftest import close

HEAD = "import os; os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')\nimport torch, tpubridge\n"


def in_threads(count, body):
    problems = []

    def run(i):
        try:
            body(i)
        except BaseException as e:
            problems.append(e)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    [t.start() for t in threads]
    [t.join(120) for t in threads]
    assert not any(t.is_alive() for t in threads), "threads wait for each other"
    if problems:
        raise problems[0]


def test_threads_train_models_of_their_own():
    def body(i):
        for device in ("cpu", "tpu"):
            w = torch.nn.Parameter(torch.full((4,), float(i + 1), device=device))
            optimizer = torch.optim.SGD([w], lr=0.1)
            for _ in range(5):
                optimizer.zero_grad()
                (w * w).sum().backward()
                optimizer.step()
            results[device, i] = w.detach().cpu()

    results = {}
    in_threads(4, body)
    for i in range(4):
        close(results["tpu", i], results["cpu", i])


def test_shapes_of_python_while_tensors_die_elsewhere():
    """Some shapes are Python's (Meta kernels), which need its lock; a tensor that dies needs ours."""
    def body(i):
        for n in range(2, 22):
            if i % 2:
                torch.linalg.vecdot(torch.ones(n, i + 2, device="tpu"), torch.ones(n, i + 2, device="tpu"))
                torch.nn.functional.multi_margin_loss(
                    torch.ones(n, i + 3, device="tpu"), torch.zeros(n, dtype=torch.long, device="tpu"))
                torch.ones(n, i + 2, device="tpu").renorm(2, 0, 1.0)
            else:
                many = [torch.ones(n, device="tpu") for _ in range(60)]
                del many
                gc.collect()

    in_threads(4, body)


def test_cycles_and_late_deaths():
    class Node:
        def __init__(self):
            self.t = torch.ones(1000, device="tpu") + 1
            self.me = self

        def __del__(self):
            self.t.add_(1)

    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    for _ in range(20):
        Node()
    gc.collect()
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() <= before + 4000


def test_views_outlive_what_they_look_at():
    x = torch.arange(12.0, device="tpu")
    part = x.view(3, 4)[1:, ::2]
    storage = x.untyped_storage()
    del x
    gc.collect()
    close(part, torch.arange(12.0).view(3, 4)[1:, ::2])
    assert storage.nbytes() == 48


def test_a_fork_after_the_device_was_opened(run_python):
    out = run_python(HEAD + """
x = torch.ones(3, device="tpu") + 1
x.cpu()
child = os.fork()
if child == 0:
    assert torch.tpu._is_in_bad_fork() and not torch.tpu.is_available()
    torch.manual_seed(3)
    try:
        (x + 1).cpu()
    except tpubridge.errors.TPUDeviceError as e:
        print("child:", type(e).__name__, e.details["this process"] == str(os.getpid()), flush=True)
    del x
    print((torch.ones(2) + 1).sum().item(), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent:", x.sum().item())
""")
    assert "child: TPUDeviceError True" in out and "4.0" in out and "parent: 6.0" in out


def test_a_fork_before(run_python):
    out = run_python(HEAD + """
torch.manual_seed(3)
assert not torch.tpu.is_initialized()
child = os.fork()
a = torch.rand(2, device="tpu").tolist()
if child == 0:
    os._exit(int(a != torch.rand(0).tolist()) * 7)
assert os.waitpid(child, 0)[1] >> 8 == 7
torch.manual_seed(3)
assert torch.rand(2, device="tpu").tolist() == a
print("both")
""")
    assert "both" in out


def test_spawned_processes(run_python):
    out = run_python(HEAD + """
import torch.multiprocessing as mp
def work(i, queue):
    queue.put((i, (torch.ones(3, device="tpu") * i).cpu()))
if __name__ == "__main__":
    torch.ones(1, device="tpu").cpu()
    context = mp.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=work, args=(i, queue)) for i in range(2)]
    [p.start() for p in processes]
    print(sorted(queue.get()[1].sum().item() for _ in processes))
    [p.join() for p in processes]
    assert all(p.exitcode == 0 for p in processes)
""")
    assert "[0.0, 3.0]" in out


ENDS = {
    "pending": "x = torch.ones(100, 100, device='tpu') @ torch.ones(100, 100, device='tpu')",
    "running": "x = torch.ones(1500, 1500, device='tpu')\nfor _ in range(8): x = x @ x * 1e-3\ntpubridge.sync()",
    "global module": "m = torch.nn.Linear(4, 4).tpu(); o = torch.optim.Adam(m.parameters())\nm(torch.ones(1, 4).tpu()).sum().backward(); o.step()",
    "at exit": "import atexit\nx = torch.ones(3, device='tpu')\natexit.register(lambda: print((x + 1).sum().item()))",
    "compiled": "f = torch.compile(lambda x: x + 1, backend='tpubridge')\nfor _ in range(3): f(torch.ones(3, device='tpu'))",
    "backward hook": "w = torch.ones(3, device='tpu', requires_grad=True); w.register_hook(lambda g: g * 2); y = (w * 2).sum(); y.backward()",
}


@pytest.mark.parametrize("name", ENDS)
def test_a_process_ends_with_its_status(run_python, name):
    run_python(HEAD + ENDS[name] + "\nprint('end')\n")
    run_python(HEAD + ENDS[name] + "\nimport sys; sys.exit(3)\n", status=3)


def test_an_uncaught_error_ends_with_a_traceback(run_python):
    out = run_python(HEAD + "tpubridge.set_memory_limit(1000)\n(torch.ones(4000, device='tpu') + 1).cpu()\n", status=1)
    assert "tpubridge.errors.TPUMemoryLimitError" in out and "Traceback" in out


def test_another_torch_is_refused_in_words():
    from tpubridge import _build_info, _load

    _load.check_torch(torch.__version__, _build_info.TORCH)
    with pytest.raises(ImportError, match=r"built for torch 2\.\d+, and torch 2\.9\.1\+cpu is installed"):
        _load.check_torch("2.9.1+cpu", _build_info.TORCH)


def test_import_needs_no_variable_and_opens_nothing(run_python):
    out = run_python("import os\nfor k in list(os.environ):\n  if k.startswith(('TPU', 'TF_', 'XLA')): del os.environ[k]\n"
                     "import torch, tpubridge\nassert not torch.tpu.is_initialized()\nprint(torch.ones(2, device='tpu').sum().item())")
    assert out.strip().endswith("2.0")

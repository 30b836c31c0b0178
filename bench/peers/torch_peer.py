"""The workloads in PyTorch, on the CPU or, where $BENCH_DEVICE says so, on CUDA.

usage: python torch_peer.py NAME eager|compile [--once|--compile] [key=value…]
"""
import os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import protocol
from protocol import Workload


def setup(mode):
    global torch, models, F, DEVICE
    import torch
    import torch.nn.functional as F
    import torch_models as models
    DEVICE = torch.device(os.environ.get("BENCH_DEVICE", "cpu"))
    torch.manual_seed(1)


def versions():
    return {"torch": torch.__version__, "python": sys.version.split()[0], "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu"}


def wait():
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def compiled(mode, f, graphs=False):
    """graphs: by CUDA graphs, where there is CUDA."""
    options = {"mode": "reduce-overhead"} if graphs and DEVICE.type == "cuda" else {}
    return torch.compile(f, **options) if mode == "compile" else f


def repeated(step):
    """A workload of a function without arguments."""
    def many(n):
        for _ in range(n):
            step()
        wait()
    return Workload(lambda: many(1), many)


def tiny(mode, s):
    a, b = torch.ones(8, 8, device=DEVICE), torch.ones(8, 8, device=DEVICE)
    f = compiled(mode, lambda a, b: a + b)
    return repeated(torch.no_grad()(lambda: f(a, b)))


def chain(mode, s):
    a, b = torch.rand(s["size"]).to(DEVICE), torch.full([s["size"]], 0.25).to(DEVICE)
    def run(a, b):
        x = a
        for _ in range(s["ops"] // 4):
            x = torch.maximum(x * b + a, x - b)
        return x
    f = compiled(mode, run)
    return repeated(torch.no_grad()(lambda: f(a, b)))


def to_device(mode, s):
    x = torch.rand(s["size"])
    return repeated(lambda: x.to(DEVICE))


def to_host(mode, s):
    x = torch.rand(s["size"]).to(DEVICE)
    return repeated(lambda: x.cpu())


class Training:
    def __init__(self, mode, model, loss, optimizer, x, y, capture=False):
        """capture: the whole step, optimizer included, as one CUDA graph: what PyTorch offers against launches."""
        self.mode, self.model, self.loss, self.optimizer, self.x, self.y = mode, model, loss, optimizer, x, y
        self.capture = capture and mode == "compile" and DEVICE.type == "cuda"
        self.value = compiled(mode, loss)
        self.run = self.step
        if self.capture:
            self.record()

    def step(self):
        value = self.value(self.x, self.y)
        value.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return value

    def record(self):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        self.run = graph.replay

    def many(self, n):
        for _ in range(n):
            self.run()
        wait()

    def facts(self):
        if DEVICE.type != "cuda":
            return {}
        torch.cuda.reset_peak_memory_stats()
        self.many(1)
        return {"peak_bytes": torch.cuda.max_memory_allocated()}

    def workload(self):
        return Workload(lambda: self.many(1), self.many, facts=self.facts)


def autocast(s):
    return torch.autocast(DEVICE.type, torch.bfloat16, enabled=s["dtype"] == "bf16")


def mlp(mode, s):
    model = models.mlp(s).to(DEVICE)
    loss = lambda x, y: F.mse_loss(model(x), y)
    data = lambda: torch.randn(s["batch"], s["width"]).to(DEVICE)
    return Training(mode, model, loss, torch.optim.SGD(model.parameters(), 1e-2), data(), data(), capture=True).workload()


def resnet(mode, s):
    layout = torch.channels_last if DEVICE.type == "cuda" else torch.contiguous_format
    model = models.ResNet(s).to(DEVICE, memory_format=layout)
    def loss(x, y):
        with autocast(s):
            return F.cross_entropy(model(x), y)
    x = torch.randn(s["batch"], 3, s["image"], s["image"]).to(DEVICE, memory_format=layout)
    y = torch.randint(s["classes"], (s["batch"],)).to(DEVICE)
    return Training(mode, model, loss, torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9), x, y).workload()


def birnn(mode, s):
    model = models.BiRnn(s).to(DEVICE)
    x = torch.randn(s["batch"], s["rows"], s["rows"]).to(DEVICE)
    y = torch.randint(s["classes"], (s["batch"],)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.01)
    return Training(mode, model, lambda x, y: F.cross_entropy(model(x), y), optimizer, x, y).workload()


def gpt(mode, s):
    model = models.Gpt(s).to(DEVICE)
    def loss(x, y):
        with autocast(s):
            return F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    some = lambda: torch.randint(s["vocabulary"], (s["batch"], s["length"])).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.01, fused=True)
    return Training(mode, model, loss, optimizer, some(), some()).workload()


def decode(mode, s):
    dtype = torch.bfloat16 if s["dtype"] == "bf16" else torch.float32
    model = models.Gpt(s).to(DEVICE, dtype).eval()
    cache = model.cache(s["batch"], dtype, DEVICE)
    token, place = torch.zeros(s["batch"], 1, dtype=torch.long, device=DEVICE), torch.zeros(1, dtype=torch.long, device=DEVICE)
    def step():
        token.copy_(model.next(token, place, cache).argmax(-1))
        place.copy_((place + 1) % s["length"])
    return repeated(torch.no_grad()(compiled(mode, step, graphs=True)))


WORKLOADS = {"tiny": tiny, "chain": chain, "to_device": to_device, "to_host": to_host, "mlp": mlp, "resnet": resnet,
             "gpt": gpt, "birnn": birnn, "decode": decode}

if __name__ == "__main__":
    protocol.main(WORKLOADS, versions, setup)

"""libtpubridge.so in a Python process: torch.ops.load_library registers the device, and a training loop, a recurrent
network and a few calls that only Python makes give the CPU's values.

load_library.py PATH/libtpubridge.so; ends with status 0 and the word "passed", or with a traceback.
"""
import ctypes
import os
import sys
import types

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import torch


def device_module():
    """What torch's Python side asks of `torch.tpu`. The device itself needs none of it."""
    module = types.ModuleType("torch.tpu")
    state = {"device": 0}
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module._lazy_init = lambda: None
    module._is_in_bad_fork = lambda: False
    module.device_count = lambda: 1
    module.current_device = lambda: state["device"]
    module.set_device = lambda index: state.update(device=int(index))
    module.manual_seed_all = lambda seed: None
    module.get_rng_state = lambda device="tpu": torch.Generator(device="tpu").get_state()
    module.set_rng_state = lambda new_state, device="tpu": None
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    return module


def load(path):
    torch.ops.load_library(path)
    if not hasattr(torch, "tpu"):
        torch._register_device_module("tpu", device_module())
    library = ctypes.CDLL(path)
    for name in ("tpubridge_compile_count", "tpubridge_cpu_fallback_count"):
        getattr(library, name).restype = ctypes.c_int64
    return library


def close(got, want, tolerance=2e-5):
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype, got.shape, want.shape)
    torch.testing.assert_close(got.detach().cpu(), want.detach().cpu(), rtol=tolerance, atol=tolerance)


def train(make_model, device, library, steps=12):
    torch.manual_seed(5)
    model = make_model()
    inputs, labels = torch.randn(steps, 16, 6, 8), torch.randint(3, (steps, 16))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses, settled = [], 0
    for step in range(steps):
        if step == 2:
            settled = library.tpubridge_compile_count()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs[step].to(device)), labels[step].to(device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert library.tpubridge_compile_count() == settled, "compiled after the second step"
    return losses, [p.detach().cpu() for p in model.parameters()]


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = torch.nn.Linear(48, 32), torch.nn.LayerNorm(32), torch.nn.Linear(32, 3)

    def forward(self, x):
        return self.down(self.norm(torch.nn.functional.gelu(self.up(x.flatten(1)))))


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = torch.nn.LSTM(8, 12, batch_first=True), torch.nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def test_training(library):
    for make_model in (Mlp, Recurrent):
        want, want_parameters = train(make_model, "cpu", library)
        fallbacks = library.tpubridge_cpu_fallback_count()
        got, parameters = train(make_model, "tpu", library)
        assert library.tpubridge_cpu_fallback_count() == fallbacks, "an op of %s ran on the CPU" % make_model.__name__
        for step, (g, w) in enumerate(zip(got, want)):
            assert abs(g - w) <= 1e-3 * abs(w), (make_model.__name__, step, g, w)
        for g, w in zip(parameters, want_parameters):
            close(g, w, 1e-3)
        assert got[-1] != got[0]
        print("%s: loss %.4f to %.4f, as on the CPU" % (make_model.__name__, got[0], got[-1]))


def test_calls_of_python(_):
    cpu = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4) - 7
    tpu = cpu.to("tpu")
    assert tpu.device.type == "tpu" and tpu.device == torch.device("tpu:0")
    for call in (
        lambda x: x + 1,
        lambda x: 2.5 * x,
        lambda x: x[:, 1, 2],
        lambda x: x[:, [0, 2], 1:3],
        lambda x: x[x > 0],
        lambda x: torch.where(x > 0, x, 0.0),
        lambda x: x.reshape(6, 4) @ x.reshape(6, 4).T,
        lambda x: torch.einsum("bij,bkj->bik", x, x),
        lambda x: x.to("cpu", non_blocking=True),
        lambda x: torch.stack([x, x.flip(0)]).sum(dim=(0, 2)),
        lambda x: torch.complex(x, x).conj().resolve_conj().imag,
        lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    ):
        close(call(tpu), call(cpu), 1e-4)
    assert tpu.tolist() == cpu.tolist()
    assert "tpu" in repr(tpu) and "-7" in repr(tpu)
    close(torch.zeros_like(tpu).copy_(cpu), cpu)


def test_random_numbers(_):
    def draw(seed):
        return torch.rand(50, device="tpu", generator=torch.Generator(device="tpu").manual_seed(seed)).cpu()

    assert torch.equal(draw(3), draw(3)) and not torch.equal(draw(3), draw(4))


def test_autocast(_):
    a = torch.randn(8, 8)
    with torch.autocast("tpu", dtype=torch.bfloat16):
        product = a.to("tpu") @ a.to("tpu")
    assert product.dtype == torch.bfloat16
    torch.testing.assert_close(product.cpu().float(), a @ a, rtol=5e-2, atol=2e-1)


def main():
    library = load(os.path.abspath(sys.argv[1]))
    for test in (test_calls_of_python, test_training, test_random_numbers, test_autocast):
        test(library)
    print("torch %s, Python %s: passed" % (torch.__version__, sys.version.split()[0]))


if __name__ == "__main__":
    main()

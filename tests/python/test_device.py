"""torch.device("tpu") as torch expects of a device."""
import copy
import io

import pytest
import torch
import tpubridge
from conftest import close
from torch import nn


def test_the_module_of_the_device():
    assert torch.tpu.is_available() and torch.tpu.device_count() >= 1
    assert torch.device("tpu") == torch.device("tpu") and torch.get_device_module("tpu") is torch.tpu
    assert torch.accelerator.current_accelerator().type == "tpu"
    assert torch.tpu.current_device() == 0
    with torch.tpu.device(0):
        assert torch.ones(1, device="tpu").device == torch.device("tpu:0")
    torch.tpu.synchronize()
    torch.accelerator.synchronize()
    properties = torch.tpu.get_device_properties()
    assert properties.name and torch.tpu.get_device_name() == properties.name and properties.platform in repr(properties)
    with pytest.raises(ValueError):
        torch.tpu.set_device(99)
    with pytest.raises(ValueError):
        torch.tpu.set_device("cpu")


def test_moving_there_and_back():
    x = torch.arange(6.0).reshape(2, 3)
    for t in (x.to("tpu"), x.tpu(), x.to(torch.device("tpu", 0)), x.to(device="tpu:0"), torch.tensor(x.tolist(), device="tpu")):
        assert t.is_tpu and t.device == torch.device("tpu:0") and t.get_device() == 0
        close(t.cpu(), x)
    assert x.tpu().to("cpu", non_blocking=True).equal(x)
    assert x.tpu().numpy(force=True).tolist() == x.tolist() == x.tpu().tolist()
    with pytest.raises(TypeError, match="numpy"):
        x.tpu().numpy()
    import numpy as np

    close(torch.from_numpy(np.asarray(x.tpu().cpu())), x)
    close(torch.as_tensor(np.ones((2, 2), np.int32), device="tpu"), torch.ones(2, 2, dtype=torch.int32))
    with torch.device("tpu"):
        assert nn.Linear(2, 2).weight.device.type == "tpu"
    torch.set_default_device("tpu")
    try:
        assert torch.zeros(1).is_tpu
    finally:
        torch.set_default_device(None)


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
          torch.int64, torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
          torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_there_and_back(dtype):
    x = torch.tensor([[0, 1, 2], [3, 0, 1]]).to(dtype)
    t = x.to("tpu")
    assert t.dtype == dtype
    assert torch.equal(t.cpu().float() if dtype.itemsize == 1 and dtype.is_floating_point else t.cpu(),
                       x.float() if dtype.itemsize == 1 and dtype.is_floating_point else x)
    close(t[1:, :2].cpu().to(torch.complex128), x[1:, :2].to(torch.complex128))
    file = io.BytesIO()
    torch.save(t, file)
    file.seek(0)
    back = torch.load(file)
    assert back.is_tpu and back.dtype == dtype
    close(back.cpu().to(torch.complex128), x.to(torch.complex128))


PRINTED = [
    lambda d: torch.arange(6.0, device=d).reshape(2, 3),
    lambda d: torch.tensor(1.5, device=d),
    lambda d: torch.tensor([1e-8, 1e8, float("nan"), float("inf")], device=d),
    lambda d: torch.arange(3, device=d),
    lambda d: torch.tensor([True, False], device=d),
    lambda d: torch.tensor([1 + 2j, 3.5j], device=d),
    lambda d: torch.ones(2, 2, dtype=torch.bfloat16, device=d),
    lambda d: torch.empty(0, 3, device=d),
    lambda d: torch.arange(5000.0, device=d).reshape(50, 100),
    lambda d: torch.ones(3, device=d, requires_grad=True),
    lambda d: torch.ones(3, device=d, requires_grad=True) * 2,
    lambda d: nn.Parameter(torch.ones(2, device=d)),
    lambda d: torch.arange(12.0, device=d).reshape(3, 4).t()[1:],
    lambda d: torch.ones(2, dtype=torch.float8_e4m3fn, device=d),
]


@pytest.mark.parametrize("make", PRINTED)
def test_printing(make):
    want = repr(make("cpu"))
    got = repr(make("tpu")).replace(", device='tpu:0'", "").replace("device='tpu:0', ", "")
    # torch breaks lines by their length, and the device is a part of it.
    assert "".join(got.split()) == "".join(want.split())
    assert "tpu:0" in repr(make("tpu"))
    str(make("tpu")), format(make("tpu"))


def test_saving_and_loading(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).tpu()
    model[2].weight = model[2].weight  # a name more changes nothing
    file = tmp_path / "model.pt"
    torch.save(model.state_dict(), file)
    close(dict(torch.load(file, map_location="cpu")), dict(model.state_dict()))
    here = torch.load(file)
    assert all(t.is_tpu for t in here.values())
    close(dict(torch.load(file, map_location="tpu:0", mmap=True)), dict(here))
    torch.save({k: v.cpu() for k, v in here.items()}, file)
    assert all(t.is_tpu for t in torch.load(file, map_location="tpu").values())
    model.load_state_dict(torch.load(file))
    # What shares memory shares it afterwards.
    x = torch.arange(6.0, device="tpu")
    torch.save({"whole": x, "part": x[2:4], "typed": x.view(2, 3)}, file)
    back = torch.load(file)
    back["whole"].add_(1)
    close(back["part"], torch.tensor([3.0, 4.0]))
    close(back["typed"], torch.arange(6.0).reshape(2, 3) + 1)


def test_copies():
    x = torch.arange(6.0).reshape(2, 3)
    t = x.tpu()
    for made in (copy.copy(t), copy.deepcopy(t), copy.deepcopy(t[:, 1:]), t.clone()):
        assert made.is_tpu
    close(copy.deepcopy(t[:, 1:]), x[:, 1:])
    pair = copy.deepcopy([t, t[0]])
    pair[0].zero_()
    close(pair[1], torch.zeros(3))
    close(t, x)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.LSTM(4, 4)).tpu()
    for made in (copy.deepcopy(model),):
        close(dict(made.state_dict()), dict(model.state_dict()))
        assert all(p.is_tpu and p.requires_grad for p in made.parameters())
        assert not {p.data_ptr() for p in made.parameters()} & {p.data_ptr() for p in model.parameters()}
    leaf = nn.Parameter(t)
    assert isinstance(copy.deepcopy(leaf), nn.Parameter)


def test_addresses_are_names():
    t = torch.arange(6.0, device="tpu")
    assert t.data_ptr() == t[:3].data_ptr() != t.clone().data_ptr() and t[2:].data_ptr() == t.data_ptr() + 8
    assert t.untyped_storage().data_ptr() == t.data_ptr() and torch.empty(0, device="tpu").data_ptr() == 0
    made = torch.UntypedStorage(8, device="tpu")
    assert made.data_ptr() not in (0, t.data_ptr())


def test_random_numbers():
    torch.manual_seed(3)
    a = torch.rand(5, device="tpu")
    state = torch.tpu.get_rng_state()
    b = torch.rand(5, device="tpu")
    torch.tpu.set_rng_state(state)
    assert torch.equal(torch.rand(5, device="tpu"), b) and not torch.equal(a, b)
    with torch.random.fork_rng(device_type="tpu"):
        torch.rand(3, device="tpu")
        inside = torch.rand(3, device="tpu")
    torch.manual_seed(3)
    assert torch.equal(torch.rand(5, device="tpu"), a) and torch.tpu.initial_seed() == 3
    torch.tpu.manual_seed_all(3)
    assert torch.equal(torch.rand(5, device="tpu"), a)
    states = torch.tpu.get_rng_state_all()
    c = torch.randn(4, device="tpu")
    torch.tpu.set_rng_state_all(states)
    assert torch.equal(torch.randn(4, device="tpu"), c) and inside.shape == (3,)
    torch.manual_seed(-1)
    own = torch.Generator(device="tpu").manual_seed(7)
    assert torch.equal(torch.rand(2, device="tpu", generator=own),
                       torch.rand(2, device="tpu", generator=torch.Generator(device="tpu").manual_seed(7)))


def test_memory():
    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    t = torch.ones(1 << 18, device="tpu") + 1
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() == torch.accelerator.memory_allocated() >= before + (1 << 20)
    assert torch.tpu.max_memory_allocated() >= torch.tpu.memory_allocated()
    assert "tensors hold" in torch.tpu.memory_summary() and torch.tpu.memory_stats()["allocated_bytes.all.current"] > 0
    del t
    torch.tpu.reset_peak_memory_stats()
    torch.tpu.empty_cache()
    torch.accelerator.empty_cache()
    assert torch.tpu.memory_allocated() <= before
    tpubridge.set_memory_limit(1 << 30)
    free, total = torch.tpu.mem_get_info()
    assert total == 1 << 30 and 0 < free <= total


def test_views_and_writes_in_place():
    def program(device):
        x = torch.arange(24.0, device=device).reshape(2, 3, 4)
        y = x.transpose(1, 2)
        y[0, 1] = -1
        x[:, 1].mul_(2)
        x.view(-1)[::5] += 100
        torch.add(x[0], x[1], out=x[0])
        z = x.permute(2, 0, 1)[1:3]
        z.copy_(z.flip(0))
        x.select(2, 3).fill_(7)
        x[x > 50] = 0
        x[[0, 1], [1, 2]] = x[[1, 0], [0, 0]]
        return x, y, z.contiguous(), x.t_() if x.dim() == 2 else x.squeeze_()

    close(program("tpu"), program("cpu"))


def test_hooks_and_modes():
    def program(device):
        seen = []
        layer = nn.Linear(3, 2)
        with torch.no_grad():
            layer.weight.copy_(torch.arange(6.0).reshape(2, 3))
            layer.bias.zero_()
        layer = layer.to(device)
        layer.register_forward_hook(lambda m, a, out: out * 2)
        layer.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].sum().item()))
        layer.weight.register_hook(lambda g: g * 3)
        layer.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
        x = torch.ones(2, 3, device=device, requires_grad=True)
        layer(x).pow(2).sum().backward()
        with torch.no_grad():
            a = layer(x)
        with torch.inference_mode():
            b = layer(x) + 1
            assert b.is_inference()
        (c,) = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
        assert not a.requires_grad and c.requires_grad is False or True
        with torch.autograd.set_detect_anomaly(True):
            layer(x).sum().backward()
        return seen, layer.weight.grad, x.grad, a, b.clone(), c

    close(program("tpu"), program("cpu"))


def test_torch_func():
    def program(device):
        f = torch.func
        x = torch.arange(1.0, 7.0, device=device).reshape(2, 3)
        layer = nn.Linear(3, 2)
        with torch.no_grad():
            layer.weight.fill_(0.5), layer.bias.fill_(0.1)
        layer = layer.to(device)
        parameters = dict(layer.named_parameters())

        def loss(p, row):
            return f.functional_call(layer, p, (row,)).pow(2).sum()

        each = f.vmap(f.grad(loss), in_dims=(None, 0))(parameters, x)
        return (
            f.grad(lambda z: (z**3).sum())(x), f.vmap(lambda r: r.cumsum(0))(x), f.jacrev(torch.sin)(x), f.jacfwd(torch.cos)(x),
            f.hessian(lambda z: (z**3).sum())(x), f.jvp(torch.exp, (x,), (x,)), list(each.values()),
            f.vjp(torch.tanh, x)[1](x), f.vmap(lambda r: torch.where(r > 2, r, -r).sort()[0])(x),
        )

    close(program("tpu"), program("cpu"), 1e-4)


def test_autocast():
    x, layer = torch.randn(4, 8), nn.Linear(8, 8)
    on = copy.deepcopy(layer).tpu()
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("tpu", dtype=dtype):
            assert torch.is_autocast_enabled("tpu") and torch.get_autocast_dtype("tpu") == dtype
            made = on(x.tpu())
            assert made.dtype == dtype and made.softmax(-1).dtype == torch.float32
        torch.testing.assert_close(made.cpu().float(), layer(x), rtol=3e-2, atol=3e-2)
    with torch.autocast("tpu", enabled=False):
        assert on(x.tpu()).dtype == torch.float32
    with pytest.warns(UserWarning, match="not supported"):
        torch.autocast("tpu", dtype=torch.float64)


def test_events_and_streams():
    stream, event = torch.tpu.current_stream(), torch.Event("tpu")
    with torch.tpu.stream(stream):
        x = torch.ones(3, device="tpu") + 1
        event.record()
    event.synchronize()
    assert event.query() and x.sum().item() == 6
    torch.accelerator.current_stream().synchronize()


def test_nothing_of_other_devices_changed():
    x = torch.ones(3)
    assert x.data_ptr() and not x.is_tpu and "device" not in repr(x) and copy.deepcopy(x).equal(x)
    with pytest.raises(RuntimeError):
        torch.ones(1).to("tpu:99")

"""tpubridge.load, export_program, save_package and fit."""
import json
import pathlib
import subprocess

import pytest
import torch
import tpubridge
from conftest import close
from torch import nn

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "pt2"


def exported(tmp_path, module, args, **kwargs):
    file = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(module.eval(), args, **kwargs), file)
    return file


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Linear(6, 8), nn.Sequential(nn.GELU(), nn.Linear(8, 3))
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x, mask=None):
        y = self.block(self.first(x)) * self.scale
        return {"logits": y if mask is None else y * mask, "pair": (y.sum(), y[0])}


def test_a_model_of_torch_export(tmp_path):
    net = Net()
    x, mask = torch.randn(4, 6), torch.rand(4, 3)
    file = exported(tmp_path, net, (x,), kwargs={"mask": mask})
    model = tpubridge.load(file)
    assert model.input_names == ["x", "mask"] and "logits" in model.output_names and "logits" in repr(model)
    assert {n for n, _ in model.named_parameters()} == {n for n, _ in net.named_parameters()}
    close(dict(model.state_dict()), dict(net.state_dict()))
    close(model(x, mask), net(x, mask))
    assert model.to("tpu") is model and all(p.is_tpu for p in model.parameters())
    close(model(x.tpu(), mask=mask.tpu()), net(x, mask), 1e-4)
    with pytest.raises(tpubridge.errors.ArgumentError):
        model(torch.ones(5, 6).tpu(), mask.tpu())
    with pytest.raises(tpubridge.errors.ArgumentError, match="type"):
        model(object(), mask)
    # Trained, with the same steps as the module it was made of.
    a, b = torch.optim.AdamW(model.parameters(), lr=0.01), torch.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(5):
        losses = []
        for m, o, i in ((model, a, (x.tpu(), mask.tpu())), (net, b, (x, mask))):
            o.zero_grad()
            loss = m(*i)["logits"].square().mean()
            loss.backward()
            o.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    close(dict(model.state_dict()), dict(net.state_dict()), 1e-3)
    model.cpu()
    model.save(tmp_path / "trained.pt2")
    close(torch.export.load(tmp_path / "trained.pt2").module()(x, mask=mask), net(x, mask), 1e-3)
    model.load_state_dict(Net().state_dict())
    assert model.double() is model and next(model.parameters()).dtype == torch.float64
    for wrong in (lambda: __import__("copy").deepcopy(model), lambda: __import__("pickle").dumps(model)):
        with pytest.raises(tpubridge.errors.UnsupportedError):
            wrong()


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3).bfloat16()
        self.register_buffer("places", torch.arange(301, 304))

    def forward(self, x):
        return self.second(self.first(x).bfloat16()).float() + self.places


def test_a_type_is_for_all_that_is_floating_point(tmp_path):
    model = tpubridge.load(exported(tmp_path, Mixed(), (torch.randn(4, 6),)))
    types = lambda: {t.dtype for t in model.parameters()}  # noqa: E731
    assert types() == {torch.float32, torch.bfloat16}
    model.to("tpu")
    assert types() == {torch.float32, torch.bfloat16}, "a device is no type"
    model.cpu().float()
    assert types() == {torch.float32}
    model.bfloat16()
    assert types() == {torch.bfloat16}
    assert model.places.tolist() == [301, 302, 303] and model.places.dtype == torch.int64


def test_tensors_that_were_replaced_are_told(tmp_path):
    net, x = Net(), torch.randn(4, 6)
    file = exported(tmp_path, net, (x,))
    want, other = net(x), {n: torch.zeros_like(t) for n, t in net.state_dict().items()}

    def assign(model):
        model.first.weight = nn.Parameter(torch.zeros(8, 6))
        model(x)

    def load_assigned(model):
        model.load_state_dict(other, assign=True)
        model(x)

    def call(model):
        torch.func.functional_call(model, {"scale": torch.tensor(3.0)}, (x,))

    def take_out(model):
        del model.get_submodule("block.1").bias
        model(x)

    for change, name in ((assign, "first.weight"), (load_assigned, "first.weight"), (call, "scale"), (take_out, "block.1.bias")):
        model = tpubridge.load(file)
        close(model(x), want)
        with pytest.raises(tpubridge.errors.UnsupportedError, match=name) as e:
            change(model)
        assert e.value.details["name"] == name and "copy_" in e.value.hint
    model = tpubridge.load(file)
    with pytest.raises(tpubridge.errors.UnsupportedError):
        torch.func.functional_call(model, {"scale": torch.tensor(3.0)}, (x,))
    close(model(x), want)  # it has its own again
    model.load_state_dict(other)
    assert model(x)["logits"].abs().sum() == 0


@pytest.mark.parametrize("file", sorted(p.stem for p in DATA.glob("*.pt2")))
def test_the_committed_exports(file):
    """Inputs by name, and results under the names that the export gave them, beside what Python made of them."""
    safetensors = pytest.importorskip("safetensors.torch")
    record = safetensors.load_file(DATA / f"{file}.safetensors")
    model = tpubridge.load(DATA / f"{file}.pt2").to("tpu")
    assert all(tensor.is_tpu for tensor in model.state_dict().values())
    result = model(**{n[3:]: t.to("tpu") for n, t in record.items() if n.startswith("in.")})
    flat = torch.utils._pytree.tree_flatten_with_path(result)[0]
    got = {".".join(str(getattr(k, "key", getattr(k, "idx", None))) for k in path) or "out": t for path, t in flat}
    want = {n[4:]: t for n, t in record.items() if n.startswith("out.")}
    assert want
    close({n: got[n] for n in want}, want, 1e-3)


def test_export_and_package(tmp_path):
    net = Net().eval().tpu()
    inputs = {"x": torch.randn(4, 6)}
    program = tpubridge.export_program(net, inputs)
    assert "stablehlo" in program.text and [n for n, _ in program.inputs] == ["x"] and program.weights
    assert "logits" in [n for n, _ in program.outputs] and "block.1.weight" in program.parameters
    close(net(inputs["x"].tpu()), net.cpu()(inputs["x"]), 1e-4)
    net.tpu()
    report = tpubridge.save_package(tmp_path / "model.tbp", net, [inputs, {"x": torch.randn(2, 6)}])
    assert report["weights"] > 0 and report["bytes"] == (tmp_path / "model.tbp").stat().st_size
    assert len(report["executables"]) == 2
    from safetensors.torch import load_file, save_file

    save_file(inputs, tmp_path / "in.safetensors")
    from tpubridge._command import program as command

    subprocess.run([command(), "run", str(tmp_path / "model.tbp"), "--in", str(tmp_path / "in.safetensors"),
                    "--out", str(tmp_path / "out.safetensors")], check=True, capture_output=True)
    close(load_file(tmp_path / "out.safetensors")["logits"], net.cpu()(inputs["x"])["logits"], 1e-4)
    with pytest.raises(tpubridge.errors.UnsupportedError):
        tpubridge.export_program(nn.Dropout().train(), {"input": torch.ones(3)})
    with pytest.raises(tpubridge.errors.ArgumentError):
        tpubridge.export_program(net, [torch.ones(3)])


def test_fit_says_what_the_command_says(tmp_path):
    with pytest.raises(tpubridge.errors.FileError) as e:
        tpubridge.fit(tmp_path / "nothing.mlir")
    assert e.value.hint and "path" in e.value.details
    from tpubridge._command import program as command

    beside = pathlib.Path(command()).parent / "tpubridge-aot"
    if not beside.exists():
        pytest.skip("without Google's TPU compiler (make aot)")
    layer = nn.Linear(8, 8).tpu()
    try:
        answer = tpubridge.fit(layer, {"input": torch.ones(2, 8)}, tpu="v5e")
    except tpubridge.errors.PluginError:
        pytest.skip("without libtpu (make aot)")
    assert "v5e" in json.dumps(answer)


def test_the_command_is_told_where_torch_is(monkeypatch):
    from tpubridge import _command

    assert _command._environment()["TPUBRIDGE_TORCH_DIR"] == str(pathlib.Path(torch.__file__).parent)
    ran = subprocess.run([_command.program(), "run", str(DATA / "mlp.pt2"), "--plugin", "cpu", "--json"], capture_output=True,
                         text=True, env=_command._environment())
    assert "input x: it is missing" in json.loads(ran.stdout)["error"]["message"], ran.stderr
    monkeypatch.setenv("TPUBRIDGE_TORCH_DIR", "/somewhere")  # what the user says counts
    assert _command._environment()["TPUBRIDGE_TORCH_DIR"] == "/somewhere"


def test_metrics_and_report():
    (torch.ones(3, device="tpu") + 1).cpu()
    counted = tpubridge.metrics()
    assert counted["compiles"] > 0 and counted["executions"] >= counted["compiles"] and isinstance(counted["fallbacks"], dict)
    assert "compiles" in tpubridge.report() and isinstance(tpubridge.explain(), str)
    x = torch.ones(3, device="tpu") * 3
    tpubridge.sync(), tpubridge.sync([x])
    close(x, torch.full((3,), 3.0))

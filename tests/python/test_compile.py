"""torch.compile(backend="tpubridge") and tpubridge.compile, beside the CPU in eager mode."""
import warnings

import pytest
import torch
import tpubridge
from conftest import close
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield


def compiled(f, **options):
    return torch.compile(f, backend="tpubridge", **options)


def test_the_backend_is_listed():
    assert "tpubridge" in torch._dynamo.list_backends()
    with pytest.raises(Exception, match="no mode and no options"):
        torch.compile(lambda x: x + 1, backend="tpubridge", options={"a": 1})(torch.ones(1, device="tpu"))


def test_a_function_is_replayed():
    f = compiled(lambda x, y: torch.softmax(x @ y, -1) + x.sum())
    for i in range(6):
        x, y = torch.randn(3, 3), torch.randn(3, 3)
        before = tpubridge.metrics()["traced_ops"]
        close(f(x.tpu(), y.tpu()), torch.softmax(x @ y, -1) + x.sum(), 1e-4)
        traced = tpubridge.metrics()["traced_ops"] - before
    assert traced == 0
    assert "graph" in tpubridge.report()


def test_training_a_compiled_model():
    def train(device, wrap):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)).to(device)
        run = wrap(model)
        # Not Adam: it makes steps of the noise that is the gradient of a bias before a batch norm.
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        torch.manual_seed(2)
        losses = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(run(torch.randn(8, 6).to(device)), torch.randint(3, (8,)).to(device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, dict(model.state_dict())

    (got, state), (want, want_state) = train("tpu", compiled), train("cpu", lambda m: m)
    assert got == pytest.approx(want, rel=1e-3)
    close(state, want_state, 2e-3)


def test_dropout_draws_anew():
    f = compiled(lambda x: nn.functional.dropout(x, 0.5))
    x = torch.ones(64, device="tpu")
    drawn = [tuple(f(x).tolist()) for _ in range(5)]
    assert len(set(drawn)) == 5
    torch.manual_seed(3)
    a = f(x)
    torch.manual_seed(3)
    assert torch.equal(a, f(x))


def test_arguments_that_are_written():
    def f(x, y):
        x.add_(y)
        y[0] = 5
        return x * 2, y.view(-1)

    run = compiled(f)
    x, y = torch.zeros(2, 2), torch.ones(2, 2)
    a, b = x.tpu(), y.tpu()
    for _ in range(5):
        close(run(a, b), f(x, y))
        close([a, b], [x, y])


def test_what_changes_between_calls():
    """Shapes, types, grad mode, autocast, training mode, attributes, globals, numbers, views."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.factor, self.drop = nn.Linear(4, 4), 2.0, nn.Dropout(0.0)

        def forward(self, x, shift=0.0):
            return self.drop(self.layer(x)) * self.factor + shift

    torch.manual_seed(0)
    net = Net()
    import copy

    on = copy.deepcopy(net).tpu()
    run = compiled(on)

    def both(*args, **kwargs):
        close(run(*[a.tpu() if isinstance(a, torch.Tensor) else a for a in args], **kwargs), net(*args, **kwargs), 1e-4)

    x = torch.randn(3, 4)
    for _ in range(3):
        both(x)
    both(torch.randn(5, 4)), both(torch.randn(2, 3, 4)), both(x[:, torch.tensor([3, 2, 1, 0])]), both(x.t()[:4, :].t().contiguous())
    net.factor = on.factor = 3.5
    both(x), both(x, 1.5), both(x, shift=-2)
    with torch.no_grad():
        both(x)
        net.layer.weight.mul_(2), on.layer.weight.mul_(2)
    both(x)
    net.eval(), on.eval(), both(x), net.train(), on.train(), both(x)
    with torch.no_grad():
        on.layer.weight.data = net.layer.weight.data.clone().tpu()
    both(x)
    net.layer = nn.Linear(4, 4)
    on.layer = copy.deepcopy(net.layer).tpu()
    both(x), both(x)
    on.double(), net.double()
    both(x.double())


def test_sizes_that_change():
    f = lambda x: (x.cumsum(0) / x.shape[0]).softmax(-1)  # noqa: E731
    for dynamic in (None, True, False):
        torch._dynamo.reset()
        run = compiled(f, dynamic=dynamic)
        for n in (2, 3, 5, 3, 2, 7):
            x = torch.randn(n, 4)
            close(run(x.tpu()), f(x), 1e-4)


def test_breaks_and_host_values():
    def f(x):
        if x.sum() > 0:
            return x * 2
        print(end="")
        return x.item() if x.numel() == 1 else x - 1

    run = compiled(f)
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3), torch.tensor([-4.0])):
        for _ in range(2):
            close(run(x.tpu()), f(x))


def test_gradients_of_gradients_of_inputs():
    f = compiled(lambda x: (x.sin() * x).sum())
    x = torch.randn(5)
    a, b = x.tpu().requires_grad_(), x.clone().requires_grad_()
    for _ in range(4):
        (g,) = torch.autograd.grad(f(a), a)
        (w,) = torch.autograd.grad((b.sin() * b).sum(), b)
        close(g, w, 1e-4)


def test_ops_of_others_are_run_at_every_call():
    calls = []

    @torch.library.custom_op("wheel_test::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x * len(calls)

    counted.register_fake(torch.empty_like)
    run = compiled(lambda x: counted(x) + 1)
    got = [run(torch.ones(2, device="tpu"))[0].item() for _ in range(5)]
    assert got == [2.0, 3.0, 4.0, 5.0, 6.0] and len(calls) == 5


def test_a_step_of_python_sees_what_changes():
    state = {"scale": 1.0, "bias": torch.zeros(2, device="tpu"), "calls": 0}

    @tpubridge.compile
    def step(x):
        state["calls"] += 1
        return x * state["scale"] + state["bias"] + state["calls"]

    x = torch.ones(2, device="tpu")
    assert step(x).tolist() == [2.0, 2.0]
    state["scale"] = 3.0
    assert step(x).tolist() == [5.0, 5.0]
    state["bias"] = torch.ones(2, device="tpu")
    assert step(x).tolist() == [7.0, 7.0]
    assert step.report()["calls"] == 3 and step.report()["why_traced"]


def test_a_step_is_one_program():
    layer = nn.Linear(4, 4).tpu()
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)

    @tpubridge.compile(name="whole")
    def step(x):
        optimizer.zero_grad()
        layer(x).square().mean().backward()
        optimizer.step()

    x = torch.randn(2, 4, device="tpu")
    for _ in range(3):
        step(x)
    before = step.report()["programs"]
    step(x)
    assert step.report()["programs"] == before + 1 and step.report()["name"] == "whole"


def test_who_compiles_at_every_call_is_told():
    def program(n):
        x = torch.ones(3, device="tpu")
        for _ in range(n):
            x = x.sin()
        return x

    step = tpubridge.compile(program, name="growing")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(2, 14):
            step(n)
    assert any("growing" in str(w.message) and "explain" in str(w.message) for w in seen)


def test_methods_and_wrong_use():
    class Thing:
        @tpubridge.compile
        def double(self, x):
            return x * 2

    assert Thing().double(torch.ones(1, device="tpu")).item() == 2
    with pytest.raises(tpubridge.errors.ArgumentError):
        tpubridge.compile(3)

"""Loops as people write them, beside the CPU's losses."""
import copy

import pytest
import torch
import tpubridge
from conftest import close
from torch import nn

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "AdamW_fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "AdamW_foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Adadelta": lambda p: torch.optim.Adadelta(p, lr=1.0),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=4),
}


def make_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))


def train(device, make_optimizer, steps=12, compiled=False):
    model = make_model().to(device)
    optimizer = make_optimizer(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=steps + 1, cycle_momentum=False)
    inputs, labels = torch.randn(steps, 8, 6), torch.randint(3, (steps, 8))
    losses = []

    def step(x, y):
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            return loss

        if isinstance(optimizer, torch.optim.LBFGS):
            return optimizer.step(closure)
        loss = closure()
        optimizer.step()
        return loss

    run = tpubridge.compile(step) if compiled else step
    torch.manual_seed(2)
    for x, y in zip(inputs, labels):
        losses.append(float(run(x.to(device), y.to(device))))
        schedule.step()
    if compiled:
        report = run.report()
        assert report["calls"] == report["traced"] == steps and report["replayed"] == 0
    return losses, [p.detach().cpu() for p in model.parameters()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_with_a_schedule_and_clipping(name):
    torch.manual_seed(5)
    want, want_parameters = train("cpu", OPTIMIZERS[name])
    torch.manual_seed(5)
    fallbacks = tpubridge.metrics()["fallbacks"]
    got, parameters = train("tpu", OPTIMIZERS[name])
    assert tpubridge.metrics()["fallbacks"].keys() == fallbacks.keys()
    assert got == pytest.approx(want, rel=2e-3)
    close(parameters, want_parameters, 5e-3)
    assert got[0] != got[-1]


@pytest.mark.parametrize("name", ["SGD", "AdamW", "AdamW_fused"])
def test_a_compiled_step_is_right_at_every_call(name):
    torch.manual_seed(5)
    want, _ = train("cpu", OPTIMIZERS[name])
    torch.manual_seed(5)
    got, _ = train("tpu", OPTIMIZERS[name], compiled=True)
    assert got == pytest.approx(want, rel=2e-3)


def test_a_settled_loop_compiles_nothing():
    model = make_model().tpu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(3):
        step(torch.randn(4, 6).tpu()).item(), schedule.step()
    with tpubridge.expect_no_compile():
        for i in range(5):
            step(torch.randn(4, 6).tpu()).item(), schedule.step()
    with pytest.raises(tpubridge.errors.CompilationError):
        with tpubridge.expect_no_compile():
            step(torch.randn(5, 6).tpu()).item()


def test_accumulation_autocast_and_a_scaler():
    def run(device):
        torch.manual_seed(3)
        model = make_model().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler(device, init_scale=128.0, growth_interval=2)
        losses = []
        torch.manual_seed(4)
        for step in range(4):
            for micro in range(3):
                x = torch.randn(4, 6).to(device)
                with torch.autocast(device, dtype=torch.bfloat16):
                    loss = model(x).float().square().mean() / 3
                scaler.scale(loss).backward()
                losses.append(loss.item())
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=step % 2 == 0)
        return losses, scaler.get_scale()

    (got, scale), (want, want_scale) = run("tpu"), run("cpu")
    assert got == pytest.approx(want, rel=3e-2) and scale == want_scale


def test_a_scaler_skips_what_overflows():
    w = nn.Parameter(torch.ones(2, device="tpu"))
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler = torch.amp.GradScaler("tpu", init_scale=4.0)
    scaler.scale((w * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    close(w, torch.ones(2))
    assert scaler.get_scale() == 2.0


def test_a_checkpoint_in_the_middle(tmp_path):
    def run(steps, load=None, save=None):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.Linear(8, 1)).tpu()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        losses = []
        if load:
            state = torch.load(load)
            model.load_state_dict(state["model"]), optimizer.load_state_dict(state["optimizer"])
            schedule.load_state_dict(state["schedule"]), torch.tpu.set_rng_state(state["rng"].cpu())
        for i in steps:
            x = torch.full((4, 6), i * 0.1, device="tpu")
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step(), schedule.step()
            losses.append(loss.item())
        if save:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "schedule": schedule.state_dict(), "rng": torch.tpu.get_rng_state()}, save)
        return losses

    whole = run(range(10))
    file = tmp_path / "state.pt"
    first = run(range(5), save=file)
    second = run(range(5, 10), load=file)
    assert first + second == pytest.approx(whole, rel=1e-6)


def test_activation_checkpointing_repeats_its_dropout():
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    block = nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5), nn.GELU(), nn.Linear(32, 6)).tpu()
    x = torch.randn(16, 6).tpu()

    def gradients(call):
        torch.manual_seed(7)
        a = x.clone().requires_grad_()
        block.zero_grad()
        call(a).square().sum().backward()
        return [a.grad.clone(), *[p.grad.clone() for p in block.parameters()]]

    want = gradients(block)
    for reentrant in (False, True):
        close(gradients(lambda a: checkpoint(block, a, use_reentrant=reentrant)), want)
    close(gradients(lambda a: checkpoint_sequential(block, 2, a, use_reentrant=False)), want)


def test_data_loaders():
    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 32

        def __getitem__(self, i):
            return torch.full((3,), float(i)), i

    torch.ones(1, device="tpu").item()  # the device is open
    for workers in (0, 2):
        for pin in (False, True):
            loader = torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=workers, pin_memory=pin)
            seen = [x.to("tpu", non_blocking=True).sum().item() for x, _ in loader]
            assert seen == [sum(3.0 * i for i in range(a, a + 8)) for a in range(0, 32, 8)]


def test_deepcopied_model_as_average():
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    def run(device):
        model = make_model().to(device)
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 6).to(device)).square().sum().backward()
            optimizer.step()
            average.update_parameters(model)
        return dict(copy.deepcopy(average).state_dict())

    close(run("tpu"), run("cpu"), 1e-4)

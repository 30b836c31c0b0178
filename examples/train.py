"""A small classifier on the device, from Python: python examples/train.py [--compile]

Prints the loss and what the device did. Needs the wheel (make wheel; docs/from-python.md).
"""
import sys

import torch
import tpubridge
from torch import nn


def main():
    torch.manual_seed(0)
    device = torch.device("tpu")
    print(f"{torch.tpu.get_device_name()} ({torch.tpu.get_device_properties().platform})")
    model = nn.Sequential(nn.Linear(2, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300)
    run = torch.compile(model, backend="tpubridge") if "--compile" in sys.argv else model
    for step in range(300):
        x = torch.rand(256, 2) * 4 - 2
        y = (x.norm(dim=1) > 1.2).long()  # inside or outside of a circle
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(run(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.4f}")
    with torch.no_grad():
        x = torch.rand(1000, 2) * 4 - 2
        right = (model(x.to(device)).argmax(1).cpu() == (x.norm(dim=1) > 1.2)).float().mean().item()
    counted = tpubridge.metrics()
    print(f"{right:.1%} right; {counted['compiles']} programs compiled, {counted['executions']} runs, "
          f"{sum(f['calls'] for f in counted['fallbacks'].values())} ops on the CPU")


if __name__ == "__main__":
    main()

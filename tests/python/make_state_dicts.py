"""Files of torch.save() and what they hold: python make_state_dicts.py OUT_FOLDER

NAME.pt beside NAME.safetensors with the same tensors by their paths; hostile.pt calls a function when Python loads it.
"""
import collections
import os
import sys

import torch
from safetensors.torch import save_file

OUT = sys.argv[1]


def paths(value, name=""):
    if isinstance(value, torch.Tensor):
        yield name, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, part in items:
        yield from paths(part, f"{name}.{key}" if name else str(key))


def write(name, value):
    torch.save(value, f"{OUT}/{name}.pt")
    save_file({k: v.detach().contiguous().clone() for k, v in paths(value)}, f"{OUT}/{name}.safetensors")


class Harm:
    def __reduce__(self):
        return os.system, ("true",)


def main():
    os.makedirs(OUT, exist_ok=True)
    torch.manual_seed(5)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2).to(torch.bfloat16))
    write("module", net.state_dict())
    base = torch.arange(24, dtype=torch.float32)
    write("views", {
        "turned": base.reshape(4, 6).t(), "part": base[5:11], "every_third": base[1::3], "spread": base[:3].expand(4, 3),
        "scalar": torch.tensor(7), "none": torch.zeros(0, 3), "bools": torch.tensor([True, False, True]),
        "half": base[:4].half(), "wide": base[:2].double(), "bytes": base[:3].to(torch.uint8), "complex": torch.tensor([1 + 2j]),
        "small": torch.tensor([-3], dtype=torch.int8), "parameter": torch.nn.Parameter(base[:2].clone())})
    net.zero_grad()
    optimizer = torch.optim.Adam(net[0].parameters())
    net[0](torch.ones(2, 4)).sum().backward()
    optimizer.step()
    write("checkpoint", {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "lr": 1e-3, "note": "häuser",
                         "best": None, "done": False, "list": [base[:2], (base[:1],)], "large": 1 << 40, "sizes": collections.OrderedDict(a=1)})
    torch.save({"weight": base[:2], "code": Harm()}, f"{OUT}/hostile.pt")
    torch.save(net, f"{OUT}/whole.pt")


main()

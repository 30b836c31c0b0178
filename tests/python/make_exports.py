"""Makes the exports of tests/data/pt2 and what Python says of them: python make_exports.py OUT_FOLDER

NAME.pt2 beside NAME.safetensors: in.PATH, out.PATH (results of a call), grad.PARAMETER (of the sum of the squared
float results), after.BUFFER (what the call left in a buffer), losses (of 20 training steps).
"""
import os
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

OUT = sys.argv[1]


def shrink(path):
    """Stack traces lose the folders of the machine they were made on; archives stay what torch wrote."""
    import json
    import zipfile
    with zipfile.ZipFile(path) as z:
        entries = [(i.filename, z.read(i)) for i in z.infolist()]

    def clean(graph):
        for node in graph["nodes"]:
            trace = node["metadata"].get("stack_trace")
            lines = [] if trace is None else [line for line in trace.splitlines()]
            kept = []
            for a in range(0, len(lines)):
                if "make_exports.py" in lines[a]:
                    kept = [lines[a].replace(lines[a].split('"')[1], os.path.basename(lines[a].split('"')[1]))]
                    kept += lines[a + 1:a + 2]
            node["metadata"] = {"stack_trace": "\n".join(kept)} if kept else {}
            for i in node["inputs"]:
                if "as_graph" in i["arg"]:
                    clean(i["arg"]["as_graph"]["graph"])
    keep = []
    for name, data in entries:
        if "/models/" in name:
            program = json.loads(data)
            clean(program["graph_module"]["graph"])
            program["torch_version"] = program["torch_version"].split("+")[0]
            data = json.dumps(program, separators=(",", ":")).encode()
        keep.append((name, data))
    with open(path, "wb") as f, zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as z:
        for name, data in keep:
            info = zipfile.ZipInfo(name)
            at = f.tell() + 30 + len(name.encode())
            pad = (64 - (at + 4) % 64) % 64
            info.extra = b"FB" + pad.to_bytes(2, "little") + b"Z" * pad
            z.writestr(info, data)


def path_name(path):
    out = []
    for key in path:
        out.append(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", None)))))
    return ".".join(out) or "out"


def tensors(tree, prefix):
    found = {}
    for path, leaf in pytree.tree_flatten_with_path(tree)[0]:
        if isinstance(leaf, torch.Tensor):
            found[prefix + path_name(path)] = leaf.detach().clone().contiguous()
    return found


def make(name, module, args=(), kwargs=None, dynamic=None, call=None, grads=True, train=None, mode="eval", no_grad=False):
    """`call` are other arguments than those of the export; `train`: the optimizer of 20 steps."""
    kwargs = kwargs or {}
    module.train(mode == "train")
    ep = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=False)
    file = f"{OUT}/{name}.pt2"
    torch.export.save(ep, file)
    shrink(file)
    ep = torch.export.load(file)
    run = ep.module()
    a, k = call or (args, kwargs)
    a, k = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (a, k))
    names = list(ep.module_call_graph[0].signature.forward_arg_names)
    record = {}
    for n, value in zip(names, a):
        record.update({("in." + n + ("." + p if p != "out" else "")): t for p, t in
                       ((key[0:], t) for key, t in tensors(value, "").items())})
    for n, value in k.items():
        record.update({("in." + n + ("." + p if p != "out" else "")): t for p, t in tensors(value, "").items()})
    with torch.set_grad_enabled(not no_grad):
        out = run(*a, **k)
    record.update(tensors(out, "out."))
    for n, b in run.named_buffers():
        record["after." + n] = b.detach().clone()
    floats = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    if grads:
        sum((t ** 2).sum() for t in floats if t.requires_grad).backward()
        for n, p in run.named_parameters():
            if p.grad is not None:
                record["grad." + n] = p.grad.clone()
    if train:
        run = torch.export.load(file).module()
        opt = (torch.optim.SGD(run.parameters(), 0.01) if train == "sgd" else torch.optim.Adam(run.parameters(), 0.01))
        losses = []
        for _ in range(20):
            opt.zero_grad()
            out = run(*a, **k)
            loss = sum((t ** 2).mean() for t in pytree.tree_leaves(out)
                       if isinstance(t, torch.Tensor) and t.is_floating_point() and t.requires_grad)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        record["losses"] = torch.tensor(losses)
    save_file({n: t.contiguous() for n, t in record.items()}, f"{OUT}/{name}.safetensors")
    print(name, os.path.getsize(file), len(record))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 16)
        self.b = nn.Linear(16, 3)

    def forward(self, x):
        return self.b(torch.nn.functional.gelu(self.a(x)))


class Conv(nn.Module):
    """Convolutions and batch norm; trains in training mode."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, padding=1)
        self.n = nn.BatchNorm2d(8)
        self.c2 = nn.Conv2d(8, 8, 3, stride=2, groups=2)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.n(self.c1(x)))
        x = torch.nn.functional.max_pool2d(x, 2)
        return self.head(torch.relu(self.c2(x)).mean((2, 3)))


class Decoder(nn.Module):
    """A decoder with a static cache, tied embeddings and no gradients through the positions."""

    def __init__(self, vocab=32, dim=16, heads=2, length=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.embed.weight
        self.heads, self.length = heads, length
        self.qkv = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))
        self.norm = nn.ModuleList(nn.RMSNorm(dim) for _ in range(layers))
        for i in range(layers):
            self.register_buffer(f"keys_{i}", torch.zeros(1, heads, length, dim // heads), persistent=False)
            self.register_buffer(f"values_{i}", torch.zeros(1, heads, length, dim // heads), persistent=False)

    def forward(self, token, position):
        x = self.embed(token)
        with torch.no_grad():
            place = torch.arange(self.length, device=x.device)
            mask = place[None, None, None, :] <= position[None, None, :, None]
        for i in range(len(self.qkv)):
            b, t, d = x.shape
            q, k, v = self.qkv[i](self.norm[i](x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            keys, values = getattr(self, f"keys_{i}"), getattr(self, f"values_{i}")
            keys.index_copy_(2, position, k)
            values.index_copy_(2, position, v)
            y = nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            x = x + self.out[i](y.transpose(1, 2).reshape(b, t, d))
        return self.head(x)


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 8, 5, stride=2), nn.GELU(), nn.Conv1d(8, 16, 3, stride=2), nn.GELU())
        self.pos = nn.Conv1d(16, 16, 4, padding=2, groups=4)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.head = nn.Linear(16, 10)

    def forward(self, wave):
        x = self.conv(wave[:, None])
        x = x + self.pos(x)[..., :-1]
        return torch.log_softmax(self.head(self.layer(x.transpose(1, 2))), -1)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))
        self.inp = nn.Conv2d(2, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.mid = nn.Sequential(nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, sample, timestep):
        half = torch.exp(-torch.arange(4, device=sample.device, dtype=torch.float32))
        angle = timestep[:, None].float() * half[None]
        t = self.time(torch.cat([angle.sin(), angle.cos()], -1))
        a = self.inp(sample)
        b = self.down(a) + t[:, :, None, None]
        b = b + self.mid(b)
        b = nn.functional.interpolate(self.up(b), size=a.shape[-2:], mode="nearest")
        return {"sample": self.out(torch.cat([a, b], 1))}


class Mutates(nn.Module):
    """A buffer that counts, an input that is written, constants, a nested tree in and out."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("sum", torch.zeros(3))
        self.c = torch.arange(3.0)

    def forward(self, x, *, state):
        self.count.add_(1)
        y = self.l(x + state["a"] + state["b"][0]) * torch.tensor(2.0) + self.c
        self.sum.add_(y.detach().sum(0))
        state["a"].mul_(2)
        return {"y": y, "parts": (y[:, 0], [y[:, 1] * self.count]), "none": None, "rows": x.shape[0] * 2 + 1}


class Dynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)
        self.n = nn.LayerNorm(8)

    def forward(self, x, y):
        b, t, d = x.shape
        z = self.n(self.l(x)).reshape(b, t // 2, 2, d).mean(2)
        steps = torch.arange(t // 2, device=x.device)[None, :, None]
        return torch.cat([z * steps, y], 1), z.flatten(0, 1)


class Cond(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        h = self.a(x)
        return torch.cond(x.sum() > 0, lambda h: (h.sin() + 1,), lambda h: (h.cos() * 3,), (h,))[0]


class While(nn.Module):
    def forward(self, n, x):
        from torch._higher_order_ops import while_loop
        return while_loop(lambda i, x: i < 7, lambda i, x: (i + 1, x * 1.5 + i), (n, x))


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.a(x)
        return y.float() + x


def main():
    torch.manual_seed(0)
    os.makedirs(OUT, exist_ok=True)
    make("mlp", Mlp(), (torch.randn(4, 6),), train="adam")
    make("conv", Conv(), (torch.randn(2, 3, 12, 12),), train="sgd", mode="train")
    make("speech", Speech(), (torch.randn(2, 64),), train="adam")
    make("unet", Unet(), (torch.randn(2, 2, 8, 8), torch.tensor([3, 7])), train="sgd")
    make("mutates", Mutates(), (torch.randn(5, 4),), {"state": {"a": torch.randn(5, 4), "b": [torch.randn(5, 4)]}})
    batch, half = Dim("batch", min=1, max=64), Dim("half", min=2, max=16)
    make("dynamic", Dynamic(), (torch.randn(3, 8, 8), torch.randn(3, 2, 8)),
         dynamic={"x": {0: batch, 1: 2 * half}, "y": {0: batch}}, call=((torch.randn(5, 12, 8), torch.randn(5, 2, 8)), {}), train="sgd")
    make("cond", Cond(), (torch.randn(3, 4),), call=((torch.full((3, 4), 0.5),), {}))
    make("while", While(), (torch.zeros((), dtype=torch.int64), torch.randn(3)), grads=False)
    make("autocast", Autocast(), (torch.randn(3, 8),))
    decoder = Decoder()
    make("decoder", decoder, (torch.tensor([[5]]), torch.tensor([0])), no_grad=True, grads=False)
    from safetensors.torch import load_file
    run = torch.export.load(f"{OUT}/decoder.pt2").module()
    token, tokens = torch.tensor([[5]]), [5]
    with torch.no_grad():
        for i in range(12):
            token = run(token, torch.tensor([i])).argmax(-1)
            tokens.append(token.item())
    record = load_file(f"{OUT}/decoder.safetensors")
    record["tokens"] = torch.tensor(tokens)
    save_file(record, f"{OUT}/decoder.safetensors")
    transformers_models()


def transformers_models():
    from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, ViTConfig, ViTModel
    bert = BertModel(BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=50,
                                max_position_embeddings=16))
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[1, 5:] = 0
    make("bert", bert, (), {"input_ids": torch.randint(0, 50, (2, 8)), "attention_mask": mask}, train="adam")
    vit = ViTModel(ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=16,
                             patch_size=8))
    make("vit", vit, (torch.randn(2, 3, 16, 16),))
    moe()
    llama_cached()


def moe():
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
    config = Qwen3MoeConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
                            intermediate_size=32, moe_intermediate_size=8, num_experts=4, num_experts_per_tok=2, vocab_size=40,
                            max_position_embeddings=16, use_cache=False)
    config._experts_implementation = "grouped_mm"
    make("moe", Qwen3MoeForCausalLM(config), (torch.randint(0, 40, (2, 6)),))


def llama_cached():
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM
    config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, intermediate_size=32,
                         vocab_size=40, max_position_embeddings=16, use_cache=True)
    model = LlamaForCausalLM(config).eval()
    model.generation_config.update(use_cache=True, cache_implementation="static",
                                   cache_config={"batch_size": 1, "max_cache_len": 16, "device": "cpu"})
    exportable = TorchExportableModuleForDecoderOnlyLM(model, batch_size=1, max_cache_len=16)
    make("llama", exportable.model, (), {"input_ids": torch.tensor([[5]]), "cache_position": torch.tensor([0])}, grads=False,
         no_grad=True)


if __name__ == "__main__":
    main()

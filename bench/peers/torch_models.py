"""The models of examples/models in PyTorch."""
import torch
from torch import nn
import torch.nn.functional as F


def mlp(s):
    layers = []
    for i in range(s["layers"]):
        layers += ([nn.ReLU()] if i else []) + [nn.Linear(s["width"], s["width"])]
    return nn.Sequential(*layers)


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        w = s["width"]
        self.heads = s["heads"]
        self.norm1, self.norm2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.qkv, self.out, self.up, self.down = nn.Linear(w, 3 * w), nn.Linear(w, w), nn.Linear(w, 4 * w), nn.Linear(4 * w, w)

    def split(self, x):
        return self.qkv(self.norm1(x)).view(x.shape[0], x.shape[1], 3, self.heads, -1).permute(2, 0, 3, 1, 4)

    def join(self, x, seen):
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

    def forward(self, x):
        q, k, v = self.split(x)
        return self.join(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def next(self, x, keys, values, place, seen):
        q, k, v = self.split(x)
        keys.index_copy_(2, place, k)
        values.index_copy_(2, place, v)
        return self.join(x, F.scaled_dot_product_attention(q, keys, values, seen))


class Gpt(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.tokens, self.places = nn.Embedding(s["vocabulary"], s["width"]), nn.Embedding(s["length"], s["width"])
        self.blocks, self.norm = nn.ModuleList(Block(s) for _ in range(s["layers"])), nn.LayerNorm(s["width"])
        if not s["tied"]:
            self.head = nn.Linear(s["width"], s["vocabulary"], bias=False)
        with torch.no_grad():
            self.tokens.weight.mul_(0.02), self.places.weight.mul_(0.02)

    def logits(self, h):
        return F.linear(self.norm(h), self.tokens.weight if self.s["tied"] else self.head.weight)

    def forward(self, x):
        h = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        return self.logits(h)

    def cache(self, batch, dtype, device):
        shape = batch, self.s["heads"], self.s["length"], self.s["width"] // self.s["heads"]
        return [[torch.zeros(shape, dtype=dtype, device=device) for _ in self.blocks] for _ in range(2)]

    def next(self, token, place, cache):
        seen = (torch.arange(self.s["length"], device=place.device) <= place).view(1, 1, 1, -1)
        h = self.tokens(token) + self.places(place)
        for block, keys, values in zip(self.blocks, *cache):
            h = block.next(h, keys, values, place, seen)
        return self.logits(h)


def conv(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Residual(nn.Module):
    def __init__(self, inputs, width, stride, deep):
        super().__init__()
        out = 4 * width if deep else width
        first = [conv(inputs, width, 1, 1), nn.BatchNorm2d(width), nn.ReLU()] if deep else []
        self.body = nn.Sequential(*first, conv(width if deep else inputs, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(),
                                  conv(width, out, 1 if deep else 3, 1), nn.BatchNorm2d(out))
        plain = stride == 1 and inputs == out
        self.shortcut = nn.Identity() if plain else nn.Sequential(conv(inputs, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, s):
        super().__init__()
        deep, inputs, blocks = s["depth"] == 50, s["width"], []
        self.stem = nn.Sequential(conv(3, inputs, 7, 2), nn.BatchNorm2d(inputs), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        for stage, depth in enumerate((3, 4, 6, 3) if deep else (2, 2, 2, 2)):
            for i in range(depth):
                width = s["width"] << stage
                blocks.append(Residual(inputs, width, 2 if stage and not i else 1, deep))
                inputs = 4 * width if deep else width
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(inputs, s["classes"])

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class BiRnn(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.lstm = nn.LSTM(s["rows"], s["width"], s["layers"], batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * s["width"], s["classes"])

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])

"""The nets for images of examples/models in JAX: parameters in dictionaries, images NHWC, no dropout."""
import numpy as np
import jax, jax.numpy as jnp
from jax import lax

from jax_models import cross_entropy, dense, layer_norm, linear, narrow, rng, scale, sgd


def conv(x, w, stride=1, groups=1, pad=None):
    pad = w.shape[0] // 2 if pad is None else pad
    return lax.conv_general_dilated(x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                    feature_group_count=groups)


def kernel(inputs, outputs, size):
    k = (inputs * size * size) ** -0.5
    return rng.uniform(-k, k, (size, size, inputs, outputs)).astype(np.float32)


class Norms:
    """Batch norms, in the order of their use: what they learn stands with the parameters, what runs along beside them."""

    def __init__(self, sizes):
        self.fresh = [{"mean": np.zeros(n, np.float32), "var": np.ones(n, np.float32)} for n in sizes]

    @staticmethod
    def apply(p, running, x):
        x32 = x.astype(jnp.float32)
        mean = x32.mean((0, 1, 2))
        variance = jnp.square(x32).mean((0, 1, 2)) - jnp.square(mean)
        n = x.size // x.shape[-1]
        after = {"mean": 0.9 * running["mean"] + 0.1 * mean, "var": 0.9 * running["var"] + 0.1 * variance * n / max(n - 1, 1)}
        factor = lax.rsqrt(variance + 1e-5) * p["w"]
        return (x32 * factor + (p["b"] - mean * factor)).astype(x.dtype), after


def trainer(s, params, norms, forward, label_shape):
    """forward(params, norm, x), where norm(p, x) is the next batch norm."""
    def loss(params, running, x, y):
        x = x.astype(jnp.bfloat16) if s["dtype"] == "bf16" else x
        before, after = iter(running), []
        def norm(p, x):
            x, now = Norms.apply(p, next(before), x)
            after.append(now)
            return x
        out = forward(narrow(params, s["dtype"]), norm, x)
        return cross_entropy(out, y), after

    def step(state, x, y):
        params, running, momentum = state
        (value, running), grads = jax.value_and_grad(loss, has_aux=True)(params, running, x, y)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return (sgd(params, momentum, 1e-2), running, momentum), value

    x = rng.standard_normal((s["batch"], s["image"], s["image"], 3), np.float32)
    y = rng.integers(s["classes"], size=label_shape).astype(np.int32)
    return step, (params, norms.fresh, jax.tree.map(np.zeros_like, params)), x, y


# ---- EfficientNet-B0, MobileNetV3-Large ----

def mobile(s, stem, last, act, blocks, head):
    """blocks: inputs, hidden, outputs, kernel, stride, squeeze, activation, activation in the squeeze, gate."""
    sizes = []
    def conv_norm(inputs, outputs, size, groups=1):
        sizes.append(outputs)
        return {"conv": kernel(inputs // groups, outputs, size), "norm": scale(outputs)}
    def made(i, h, o, k, stride, q, *_):
        p = {"expand": conv_norm(i, h, 1)} if h != i else {}
        p["depth"] = conv_norm(h, h, k, h)
        if q:
            p["down"], p["up"] = linear(h, q), linear(q, h)
        p["project"] = conv_norm(h, o, 1)
        return p
    params = {"stem": conv_norm(3, stem, 3), "blocks": [made(*b) for b in blocks], "last": conv_norm(blocks[-1][2], last, 1)}
    if head:
        params["middle"] = linear(last, head)
    params["head"] = linear(head or last, s["classes"])

    def forward(p, norm, x):
        run = lambda c, x, stride=1, groups=1: norm(c["norm"], conv(x, c["conv"], stride, groups))
        x = act(run(p["stem"], x, 2))
        for b, (i, h, o, _, stride, q, a, squeeze_act, gate) in zip(p["blocks"], blocks):
            y = a(run(b["expand"], x)) if "expand" in b else x
            y = a(run(b["depth"], y, stride, h))
            if q:
                y = y * gate(dense(b["up"], squeeze_act(dense(b["down"], y.mean((1, 2), keepdims=True)))))
            y = run(b["project"], y)
            x = x + y if stride == 1 and i == o else y
        x = act(run(p["last"], x)).mean((1, 2))
        return dense(p["head"], act(dense(p["middle"], x)) if head else x)

    return trainer(s, params, Norms(sizes), forward, s["batch"])


def efficientnet(s):
    blocks, i = [], 32
    for factor, k, stride, o, n in ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3),
                                    (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)):
        for j in range(n):
            blocks.append((i, i * factor, o, k, 1 if j else stride, max(1, i // 4), jax.nn.silu, jax.nn.silu, jax.nn.sigmoid))
            i = o
    return mobile(s, 32, 1280, jax.nn.silu, blocks, 0)


def mobilenet(s):
    blocks, i = [], 16
    for k, h, o, q, swish, stride in (
            (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 24, 0, 2), (5, 120, 40, 32, 0, 1),
            (5, 120, 40, 32, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
            (3, 480, 112, 120, 1, 1), (3, 672, 112, 168, 1, 1), (5, 672, 160, 168, 1, 2), (5, 960, 160, 240, 1, 1),
            (5, 960, 160, 240, 1, 1)):
        act = jax.nn.hard_swish if swish else jax.nn.relu
        blocks.append((i, h, o, k, stride, q, act, jax.nn.relu, jax.nn.hard_sigmoid))
        i = o
    return mobile(s, 16, 960, jax.nn.hard_swish, blocks, 1280)


# ---- U-Net ----

def unet(s):
    sizes, w, levels = [], s["width"], s["levels"]
    def two(inputs, outputs):
        sizes.extend([outputs, outputs])
        return [{"conv": kernel(i, outputs, 3), "norm": scale(outputs)} for i in (inputs, outputs)]
    params = {"down": [two(w << (i - 1) if i else 3, w << i) for i in range(levels + 1)], "up": [], "merge": []}
    for i in reversed(range(levels)):
        params["up"].append({"w": kernel(2 * w << i, w << i, 2), "b": np.zeros(w << i, np.float32)})
        params["merge"].append(two(2 * w << i, w << i))
    params["last"] = linear(w, s["classes"])

    def forward(p, norm, x):
        def both(convs, x):
            for c in convs:
                x = jax.nn.relu(norm(c["norm"], conv(x, c["conv"])))
            return x
        seen = []
        for i, convs in enumerate(p["down"]):
            if i:
                x = lax.reduce_window(x, np.array(-np.inf, x.dtype), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            x = both(convs, x)
            seen.append(x)
        for up, merge, skip in zip(p["up"], p["merge"], seen[-2::-1]):
            x = lax.conv_transpose(x, up["w"], (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + up["b"].astype(x.dtype)
            x = both(merge, jnp.concatenate([skip, x], -1))
        return dense(p["last"], x)

    return trainer(s, params, Norms(sizes), forward, (s["batch"], s["image"], s["image"]))


# ---- Swin-T ----

WINDOW = 7


def to_windows(x):
    n, c = x.shape[1] // WINDOW, x.shape[3]
    return x.reshape(x.shape[0], n, WINDOW, n, WINDOW, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW * WINDOW, c)


def from_windows(x, side):
    n, c = side // WINDOW, x.shape[2]
    return x.reshape(-1, n, n, WINDOW, WINDOW, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, side, side, c)


def swin(s):
    places, at = 2 * WINDOW - 1, np.arange(WINDOW)
    row, column = np.repeat(at, WINDOW), np.tile(at, WINDOW)
    apart = lambda p: p[:, None] - p[None, :] + WINDOW - 1
    index = (apart(row) * places + apart(column)).ravel()

    def block_params(c, heads):
        return {"norm1": scale(c), "norm2": scale(c), "qkv": linear(c, 3 * c), "out": linear(c, c), "up": linear(c, 4 * c),
                "down": linear(4 * c, c), "bias": 0.02 * rng.standard_normal((places * places, heads), np.float32)}

    def block(p, x, heads, shift):
        b, side, _, c = x.shape
        n, t = (side // WINDOW) ** 2, WINDOW * WINDOW
        y = layer_norm(p["norm1"], x)
        if shift:
            y = jnp.roll(y, (-shift, -shift), (1, 2))
        q, k, v = dense(p["qkv"], to_windows(y)).reshape(-1, t, 3, heads, c // heads).transpose(2, 0, 3, 1, 4)
        scores = jnp.einsum("whqd,whkd->whqk", q * (c // heads) ** -0.5, k)
        scores = scores + p["bias"][index].reshape(t, t, heads).transpose(2, 0, 1)
        if shift:
            part = np.searchsorted([side - WINDOW, side - shift], np.arange(side), side="right")
            region = to_windows((part[:, None] * 3 + part).reshape(1, side, side, 1))[..., 0]
            mask = np.where(region[:, None] != region[:, :, None], np.float32(-100), np.float32(0))
            scores = (scores.reshape(b, n, heads, t, t) + mask[:, None]).reshape(-1, heads, t, t)
        y = jnp.einsum("whqk,whkd->wqhd", jax.nn.softmax(scores), v).reshape(-1, t, c)
        y = from_windows(dense(p["out"], y), side)
        x = x + (jnp.roll(y, (shift, shift), (1, 2)) if shift else y)
        return x + dense(p["down"], jax.nn.gelu(dense(p["up"], layer_norm(p["norm2"], x)), approximate=False))

    params, plan, c, side = {"patches": kernel(3, 96, 4), "bias": np.zeros(96, np.float32), "norm": scale(96), "stages": []}, [], 96, s["image"] // 4
    for stage, depth in enumerate((2, 2, 6, 2)):
        made = {}
        if stage:
            made["merge"] = {"norm": scale(4 * c), "reduce": linear(4 * c, 2 * c, bias=False)}
            c, side = 2 * c, side // 2
        made["blocks"] = [block_params(c, c // 32) for _ in range(depth)]
        params["stages"].append(made)
        plan.append([(c // 32, WINDOW // 2 if i % 2 and side > WINDOW else 0) for i in range(depth)])
    params["last"], params["head"] = scale(c), linear(c, s["classes"])

    def forward(p, norm, x):
        x = layer_norm(p["norm"], conv(x, p["patches"], 4, pad=0) + p["bias"])
        for stage, how in zip(p["stages"], plan):
            if "merge" in stage:
                four = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
                x = dense(stage["merge"]["reduce"], layer_norm(stage["merge"]["norm"], jnp.concatenate(four, -1)))
            for b, (heads, shift) in zip(stage["blocks"], how):
                x = block(b, x, heads, shift)
        return dense(p["head"], layer_norm(p["last"], x).mean((1, 2)))

    return trainer(s, params, Norms([]), forward, s["batch"])

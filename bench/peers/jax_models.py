"""The models of examples/models in JAX, as a user of JAX would write them: parameters in dictionaries, images NHWC."""
import numpy as np
import jax, jax.numpy as jnp
from jax import lax

rng = np.random.default_rng(1)


def linear(inputs, outputs, bias=True):
    k = inputs**-0.5
    made = {"w": rng.uniform(-k, k, (inputs, outputs)).astype(np.float32)}
    if bias:
        made["b"] = rng.uniform(-k, k, outputs).astype(np.float32)
    return made


def scale(n):
    return {"w": np.ones(n, np.float32), "b": np.zeros(n, np.float32)}


def dense(p, x):
    y = x @ p["w"]
    return y + p["b"].astype(y.dtype) if "b" in p else y


def layer_norm(p, x):
    x32 = x.astype(jnp.float32)
    centred = x32 - x32.mean(-1, keepdims=True)
    normal = centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
    return (normal * p["w"] + p["b"]).astype(x.dtype)


def narrow(params, dtype):
    """Weights of the products in bf16, where asked; masters stay f32."""
    return jax.tree.map(lambda p: p.astype(jnp.bfloat16) if p.ndim > 1 else p, params) if dtype == "bf16" else params


def cross_entropy(logits, target):
    logits = logits.astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), target[..., None], -1).mean()


def sgd(params, grads, rate):
    return jax.tree.map(lambda p, g: p - rate * g, params, grads)


def adamw(params, grads, m, v, count, rate=1e-3, b1=0.9, b2=0.999, eps=1e-8, decay=0.01):
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, m, grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, v, grads)
    c1, c2 = 1 - b1**count, 1 - b2**count
    update = lambda p, m, v: p * (1 - rate * decay) - rate * (m / c1) / (jnp.sqrt(v / c2) + eps)
    return jax.tree.map(update, params, m, v), m, v


# ---- MLP ----

def mlp(s):
    params = [linear(s["width"], s["width"]) for _ in range(s["layers"])]
    def loss(params, x, y):
        for i, p in enumerate(params):
            x = dense(p, jax.nn.relu(x) if i else x)
        return jnp.square(x - y).mean()
    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return sgd(params, grads, 1e-2), value
    data = lambda: rng.standard_normal((s["batch"], s["width"]), np.float32)
    return step, params, data(), data()


# ---- GPT ----

def gpt_params(s):
    w = s["width"]
    block = lambda: {"norm1": scale(w), "qkv": linear(w, 3 * w), "out": linear(w, w), "norm2": scale(w),
                     "up": linear(w, 4 * w), "down": linear(4 * w, w)}
    made = {"tokens": 0.02 * rng.standard_normal((s["vocabulary"], w), np.float32),
            "places": 0.02 * rng.standard_normal((s["length"], w), np.float32),
            "blocks": [block() for _ in range(s["layers"])], "norm": scale(w)}
    if not s["tied"]:
        made["head"] = linear(w, s["vocabulary"], bias=False)
    return made


def logits(p, h):
    h = layer_norm(p["norm"], h)
    return h @ p["tokens"].T if "head" not in p else dense(p["head"], h)


def after_attention(p, x, seen):
    x = x + dense(p["out"], seen)
    return x + dense(p["down"], jax.nn.gelu(dense(p["up"], layer_norm(p["norm2"], x)), approximate=False))


def attention(q, k, v, s):
    """Of [batch, length, heads, depth]; on CUDA in bf16 by cuDNN, which is what JAX has to offer there."""
    fast = s["dtype"] == "bf16" and jax.default_backend() in ("gpu", "cuda")
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn" if fast else "xla")


def gpt(s):
    params = gpt_params(s)
    b, t, w, h = s["batch"], s["length"], s["width"], s["heads"]
    def forward(p, x):
        y = p["tokens"][x] + p["places"]
        for block in p["blocks"]:
            q, k, v = (a.reshape(b, t, h, w // h) for a in jnp.split(dense(block["qkv"], layer_norm(block["norm1"], y)), 3, -1))
            y = after_attention(block, y, attention(q, k, v, s).reshape(b, t, w))
        return logits(p, y)
    def loss(params, x, y):
        return cross_entropy(forward(narrow(params, s["dtype"]), x), y)
    def step(state, x, y):
        params, m, v, count = state
        value, grads = jax.value_and_grad(loss)(params, x, y)
        params, m, v = adamw(params, grads, m, v, count + 1)
        return (params, m, v, count + 1), value
    zeros = lambda: jax.tree.map(np.zeros_like, params)
    some = lambda: rng.integers(s["vocabulary"], size=(b, t)).astype(np.int32)
    return step, (params, zeros(), zeros(), np.float32(0)), some(), some()


def decode(s):
    """(params, state) -> state; state: token, place, keys, values."""
    dtype = jnp.bfloat16 if s["dtype"] == "bf16" else jnp.float32
    params = jax.tree.map(lambda p: np.asarray(p, dtype), gpt_params(s))
    b, t, w, h = s["batch"], s["length"], s["width"], s["heads"]
    def step(p, state):
        token, place, keys, values = state
        seen = jnp.arange(t) <= place
        x = p["tokens"][token] + p["places"][place]
        for i, block in enumerate(p["blocks"]):
            q, k, v = (a.reshape(b, h, w // h) for a in jnp.split(dense(block["qkv"], layer_norm(block["norm1"], x)), 3, -1))
            keys[i] = lax.dynamic_update_slice(keys[i], k[:, :, None], (0, 0, place, 0))
            values[i] = lax.dynamic_update_slice(values[i], v[:, :, None], (0, 0, place, 0))
            score = jnp.einsum("bhd,bhtd->bht", q, keys[i]).astype(jnp.float32) * (w // h) ** -0.5
            share = jax.nn.softmax(jnp.where(seen, score, -jnp.inf)).astype(dtype)
            x = after_attention(block, x, jnp.einsum("bht,bhtd->bhd", share, values[i]).reshape(b, w))
        return jnp.argmax(logits(p, x), -1).astype(jnp.int32), (place + 1) % t, keys, values
    caches = lambda: [np.zeros((b, h, t, w // h), dtype) for _ in range(s["layers"])]
    return step, params, (np.zeros(b, np.int32), np.int32(0), caches(), caches())


# ---- ResNet, NHWC ----

def conv_params(inputs, outputs, kernel):
    k = (inputs * kernel * kernel) ** -0.5
    return {"conv": rng.uniform(-k, k, (kernel, kernel, inputs, outputs)).astype(np.float32), "norm": scale(outputs)}


def conv_norm(p, running, x, stride):
    kernel = p["conv"].shape[0]
    x = lax.conv_general_dilated(x, p["conv"], (stride, stride), [(kernel // 2, kernel // 2)] * 2,
                                 dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x32 = x.astype(jnp.float32)
    mean = x32.mean((0, 1, 2))
    variance = jnp.square(x32).mean((0, 1, 2)) - jnp.square(mean)
    n = x.size // x.shape[-1]
    running = {"mean": 0.9 * running["mean"] + 0.1 * mean, "var": 0.9 * running["var"] + 0.1 * variance * n / (n - 1)}
    factor = lax.rsqrt(variance + 1e-5) * p["norm"]["w"]
    return (x32 * factor + (p["norm"]["b"] - mean * factor)).astype(x.dtype), running


def resnet(s):
    deep = s["depth"] == 50
    width = s["width"]
    params, strides, inputs = {"stem": conv_params(3, width, 7), "blocks": []}, [], width
    for stage, depth in enumerate((3, 4, 6, 3) if deep else (2, 2, 2, 2)):
        for i in range(depth):
            w, stride = width << stage, 2 if stage and not i else 1
            out = 4 * w if deep else w
            sizes = [(inputs, w, 1), (w, w, 3), (w, out, 1)] if deep else [(inputs, w, 3), (w, out, 3)]
            block = {"body": [conv_params(*c) for c in sizes]}
            if stride != 1 or inputs != out:
                block["shortcut"] = conv_params(inputs, out, 1)
            params["blocks"].append(block)
            strides.append(stride)
            inputs = out
    params["head"] = linear(inputs, s["classes"])
    fresh = lambda p: {"mean": np.zeros(len(p["norm"]["w"]), np.float32), "var": np.ones(len(p["norm"]["w"]), np.float32)}
    is_conv = lambda p: isinstance(p, dict) and "conv" in p
    running = jax.tree.map(fresh, {k: params[k] for k in ("stem", "blocks")}, is_leaf=is_conv)

    def forward(p, running, x):
        now = {"blocks": []}
        x, now["stem"] = conv_norm(p["stem"], running["stem"], x, 2)
        x = lax.reduce_window(jax.nn.relu(x), np.array(-np.inf, x.dtype), lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)])
        for block, before, stride in zip(p["blocks"], running["blocks"], strides):
            y, after = x, {"body": []}
            for i, c in enumerate(block["body"]):
                y, r = conv_norm(c, before["body"][i], y, stride if i == (1 if deep else 0) else 1)
                after["body"].append(r)
                y = jax.nn.relu(y) if i + 1 < len(block["body"]) else y
            if "shortcut" in block:
                x, after["shortcut"] = conv_norm(block["shortcut"], before["shortcut"], x, stride)
            x = jax.nn.relu(x + y)
            now["blocks"].append(after)
        return dense(p["head"], x.mean((1, 2))), now

    def loss(params, running, x, y):
        x = x.astype(jnp.bfloat16) if s["dtype"] == "bf16" else x
        out, running = forward(narrow(params, s["dtype"]), running, x)
        return cross_entropy(out, y), running

    def step(state, x, y):
        params, running, momentum = state
        (value, running), grads = jax.value_and_grad(loss, has_aux=True)(params, running, x, y)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return (sgd(params, momentum, 1e-2), running, momentum), value

    x = rng.standard_normal((s["batch"], s["image"], s["image"], 3), np.float32)
    y = rng.integers(s["classes"], size=s["batch"]).astype(np.int32)
    return step, (params, running, jax.tree.map(np.zeros_like, params)), x, y


# ---- LSTM of two directions ----

def birnn(s):
    w = s["width"]
    inputs = [s["rows"]] + [2 * w] * (s["layers"] - 1)
    lstm = lambda n: {"in": linear(n, 4 * w), "state": {**linear(w, 4 * w), "b": rng.uniform(-w**-0.5, w**-0.5, 4 * w).astype(np.float32)}}
    params = {"layers": [{"there": lstm(n), "back": lstm(n)} for n in inputs], "out": linear(2 * w, s["classes"])}

    def run(p, x, reverse):  # x: time first; what depends on the input alone is one product for all steps
        def cell(state, gates):
            h, c = state
            i, f, g, o = jnp.split(gates + dense(p["state"], h), 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        zeros = jnp.zeros((x.shape[1], w), x.dtype)
        return lax.scan(cell, (zeros, zeros), dense(p["in"], x), reverse=reverse)[1]

    def loss(params, x, y):
        x = x.swapaxes(0, 1)
        for p in params["layers"]:
            x = jnp.concatenate([run(p["there"], x, False), run(p["back"], x, True)], -1)
        return cross_entropy(dense(params["out"], x[-1]), y)

    def step(state, x, y):
        params, m, v, count = state
        value, grads = jax.value_and_grad(loss)(params, x, y)
        params, m, v = adamw(params, grads, m, v, count)
        return (params, m, v, count + 1), value

    zeros = lambda: jax.tree.map(np.zeros_like, params)
    x = rng.standard_normal((s["batch"], s["rows"], s["rows"]), np.float32)
    return step, (params, zeros(), zeros(), np.float32(1)), x, rng.integers(0, s["classes"], s["batch"])

"""The workloads in JAX, one jitted function each, state donated.

usage: python jax_peer.py NAME client|plugin [--once|--compile] [key=value…]

client: the backend that JAX picks itself (JAX_PLATFORMS). plugin: the PJRT plugin of $BENCH_PLUGIN, the one that
tpubridge uses. Compiled programs are kept in $JAX_COMPILATION_CACHE_DIR.
"""
import ctypes, json, os, sys, tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import protocol
from protocol import Workload


def setup(mode):
    """Before JAX is imported."""
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if mode == "plugin":
        plugin = os.environ["BENCH_PLUGIN"]
        named = plugin
        if os.environ.get("BENCH_DEVICE") == "cpu":  # one device, as ours; by itself it takes four, and as many threads
            global settings  # the file goes with it
            settings = tempfile.NamedTemporaryFile("w", suffix=".json")
            json.dump({"library_path": plugin, "create_options": {"cpu_device_count": 1}}, settings)
            settings.flush()
            named = settings.name
        os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"bench:{named}"
        os.environ["JAX_PLATFORMS"] = "bench"
        if os.environ.get("BENCH_CORE") and os.uname().machine == "aarch64":
            # On a machine that hides SVE the plugin would kill the process; tpubridge knows how to prevent that.
            core, library = ctypes.CDLL(os.environ["BENCH_CORE"]), ctypes.CDLL(plugin, os.RTLD_LOCAL | os.RTLD_NOW)
            core._ZN9tpubridge4pjrt19hide_sve_if_missingEPv(ctypes.c_void_p(library._handle))
    global jax, jnp, lax, np, models, vision
    import jax, numpy as np
    import jax.numpy as jnp
    from jax import lax
    import jax_models as models, jax_vision as vision


def versions():
    return {"jax": jax.__version__, "python": sys.version.split()[0], "device": jax.devices()[0].device_kind}


def wait(x):
    return jax.block_until_ready(x)


def repeated(f, *arguments):
    """A workload of a function of the same arguments."""
    def many(n):
        for _ in range(n):
            last = f(*arguments)
        wait(last)
    return Workload(lambda: wait(f(*arguments)), many)


def tiny(mode, sizes):
    return repeated(jax.jit(lambda a, b: a + b), jnp.ones((8, 8)), jnp.ones((8, 8)))


def chain(mode, sizes):
    def run(a, b):
        x = a
        for _ in range(sizes["ops"] // 4):
            x = jnp.maximum(x * b + a, x - b)
        return x
    a = jax.device_put(np.random.default_rng(1).random(sizes["size"], np.float32))
    return repeated(jax.jit(run), a, jnp.full(sizes["size"], 0.25, jnp.float32))


def to_device(mode, sizes):
    x = np.random.default_rng(1).random(sizes["size"], np.float32)
    return Workload(lambda: wait(jax.device_put(x)))


def to_host(mode, sizes):
    x = wait(jax.device_put(np.random.default_rng(1).random(sizes["size"], np.float32)))
    def call():  # an array keeps its copy on the host, so each call reads a new one of the same buffer
        np.array(jax.make_array_from_single_device_arrays(x.shape, x.sharding, [x]))
    return Workload(call)


def trace(mode, sizes):
    """One call is one op of a function that is traced and not compiled."""
    a = jnp.ones((64, 64))
    def many(n):
        def run(x):
            for _ in range(n):
                x = x + a
            return x
        jax.make_jaxpr(run)(a)
    return Workload(lambda: many(1), many)


class Training:
    """state, x, y -> state, loss; jitted, the state donated. With a window: so many steps in one scan, counted as such."""

    def __init__(self, step, state, x, y, window=0):
        if window:
            one, rows = step, lambda a: np.broadcast_to(a, (window, *a.shape))
            step, x, y = lambda state, x, y: lax.scan(lambda s, row: one(s, *row), state, (x, y)), rows(x), rows(y)
        self.window = window or 1
        self.plain, self.state, self.x, self.y = step, jax.device_put(state), jax.device_put(x), jax.device_put(y)
        self.renew()

    def renew(self):
        self.jitted = jax.jit(self.plain, donate_argnums=0)

    def call(self):
        self.many(1)

    def many(self, n):
        for _ in range(max(n // self.window, 1)):
            self.state, loss = self.jitted(self.state, self.x, self.y)
        wait(loss)

    def facts(self):
        m = self.jitted.lower(self.state, self.x, self.y).compile().memory_analysis()
        total = m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes - m.alias_size_in_bytes
        return {"peak_bytes": total}

    def workload(self):
        return Workload(self.call, self.many, self.renew, self.facts)


def training(make):
    def work(mode, sizes):
        return Training(*make(sizes), window=sizes.get("window", 0)).workload()
    return work


def decode(mode, sizes):
    step, params, state = models.decode(sizes)
    f, params = jax.jit(step, donate_argnums=1), jax.device_put(params)
    box = [jax.device_put(state)]
    def many(n):
        for _ in range(n):
            box[0] = f(params, box[0])
        wait(box[0])
    return Workload(lambda: many(1), many)


WORKLOADS = {"tiny": tiny, "chain": chain, "to_device": to_device, "to_host": to_host, "trace": trace,
             "mlp": lambda m, s: training(models.mlp)(m, s), "resnet": lambda m, s: training(models.resnet)(m, s),
             "gpt": lambda m, s: training(models.gpt)(m, s), "birnn": lambda m, s: training(models.birnn)(m, s),
             "decode": decode, "efficientnet": lambda m, s: training(vision.efficientnet)(m, s),
             "mobilenet": lambda m, s: training(vision.mobilenet)(m, s), "unet": lambda m, s: training(vision.unet)(m, s),
             "swin": lambda m, s: training(vision.swin)(m, s)}

if __name__ == "__main__":
    protocol.main(WORKLOADS, versions, setup)

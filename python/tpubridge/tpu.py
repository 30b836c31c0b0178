"""torch.tpu: what torch and programs ask of the module of a device."""
import contextlib

import torch

from tpubridge import _C



def _is_in_bad_fork():
    """Whether this process was forked after the device was opened: it cannot be used here."""
    return _C.in_forked_child()


def _lazy_init():
    _C.device_count()


def __getattr__(name):
    if name == "_initialized":  # torch asks for it so, and the device may be opened without Python
        return _C.is_open()
    raise AttributeError(f"module 'torch.tpu' has no attribute {name!r}")


def init():
    """Opens the device, which its first use does by itself."""
    _lazy_init()


def is_initialized():
    return _C.is_open()


def is_available():
    """Whether there is a device: a TPU, a GPU or XLA's CPU, by whatever plugin is found. False where none can be opened."""
    return device_count() > 0


def is_bf16_supported(including_emulation=True):
    return True


def device_count():
    try:
        return _C.device_count()
    except Exception:  # the first use of the device says what is wrong
        return 0


def current_device():
    return _C.current_device()


def _index(device=None):
    """The number of a device, given as one, a number, a text or nothing."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "tpu":
        raise ValueError(f"expected a tpu device, got {device}")
    return current_device() if device.index is None else device.index


def set_device(device):
    index = _index(device)
    if index >= 0:
        if index >= device_count():
            raise ValueError(f"there is no device tpu:{index}: there are {device_count()}")
        _C.set_device(index)


class device(contextlib.ContextDecorator):
    """with torch.tpu.device(1): … is on that device."""

    def __init__(self, device):
        self.index = _index(device)
        self.before = []

    def __enter__(self):
        self.before.append(current_device())
        set_device(self.index)
        return self

    def __exit__(self, *_):
        _C.set_device(self.before.pop())
        return False


class device_of(device):
    """The device of a tensor; another tensor's changes nothing."""

    def __init__(self, tensor):
        super().__init__(tensor.get_device() if tensor.is_tpu else -1)


def exchange_device(device):
    before = current_device()
    set_device(device)
    return before


def maybe_exchange_device(device):
    return current_device() if device < 0 else exchange_device(device)


_exchange_device, _maybe_exchange_device = exchange_device, maybe_exchange_device


class _Properties:
    def __init__(self, facts):
        self.__dict__.update(facts)
        self.multi_processor_count = 1

    def __repr__(self):
        return "TpuDeviceProperties(" + ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items()) + ")"


def get_device_properties(device=None):
    """name, platform, version, coords, total_memory (None where the plugin does not tell)."""
    return _Properties(_C.device_properties(_index(device)))


def get_device_name(device=None):
    return get_device_properties(device).name


def synchronize(device=None):
    """Computes what is pending on the device, and waits for it."""
    _C.synchronize(_index(device))


# Programs run in the order in which they were queued: there is one stream.
Stream, Event = torch.Stream, torch.Event


def current_stream(device=None):
    return torch.Stream(device=torch.device("tpu", _index(device)))


default_stream = current_stream


def set_stream(stream):
    if stream is not None:
        set_device(stream.device)


@contextlib.contextmanager
def stream(stream):
    with contextlib.nullcontext() if stream is None else device(stream.device):
        yield


# Random numbers.


def _generator(device=None):
    return _C.default_generator(_index(device))


class _Generators:
    """One a device, as torch.cuda.default_generators."""

    def __getitem__(self, index):
        return _C.default_generator(range(device_count())[index])

    def __len__(self):
        return device_count()

    def __iter__(self):
        return (_C.default_generator(i) for i in range(device_count()))


default_generators = _Generators()


def manual_seed(seed):
    _generator().manual_seed(int(seed))


def manual_seed_all(seed):
    _C.seed_all(int(seed) % 2**64)


def seed():
    return _generator().seed()


def seed_all():
    manual_seed_all(seed())


def initial_seed():
    return _generator().initial_seed()


def get_rng_state(device="tpu"):
    return _generator(device).get_state()


def set_rng_state(new_state, device="tpu"):
    _generator(device).set_state(new_state)


def get_rng_state_all():
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(new_states):
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# Memory: what tensors hold. What a program takes beside it while it runs is in no account of the plugins.


def memory_allocated(device=None):
    return _C.memory(_index(device))["live"]


def max_memory_allocated(device=None):
    return _C.memory(_index(device))["peak"]


memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated  # nothing is held back


def reset_peak_memory_stats(device=None):
    _C.reset_peak_memory(_index(device))


reset_max_memory_allocated = reset_accumulated_memory_stats = reset_peak_memory_stats


def mem_get_info(device=None):
    """(free, total) bytes; UnsupportedError where neither the plugin nor set_memory_limit() says what there is."""
    memory = _C.memory(_index(device))
    if memory["limit"] is None:
        from tpubridge import errors

        raise errors.UnsupportedError("this plugin does not tell how much memory its device has")
    return max(memory["limit"] - memory["live"], 0), memory["limit"]


def memory_stats(device=None):
    memory = _C.memory(_index(device))
    return {
        "allocated_bytes.all.current": memory["live"],
        "allocated_bytes.all.peak": memory["peak"],
        "reserved_bytes.all.current": memory["live"],
        "reserved_bytes.all.peak": memory["peak"],
    }


def memory_summary(device=None, abbreviated=False):
    index = _index(device)
    memory = _C.memory(index)
    limit = "unknown" if memory["limit"] is None else f"{memory['limit']:,} bytes"
    return f"tpu:{index}: tensors hold {memory['live']:,} bytes, {memory['peak']:,} at most; the limit is {limit}"


def empty_cache():
    """Nothing to do: memory of dead tensors goes back at once."""


def ipc_collect():
    """Nothing to do: tensors are not shared between processes."""


def get_amp_supported_dtype():
    return [torch.bfloat16, torch.float16]


def get_amp_dtype():
    return torch.bfloat16

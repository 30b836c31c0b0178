"""What the device did and what it may do."""
from tpubridge import _C


def sync(tensors=None):
    """Computes everything that is pending and returns when the programs are queued; with tensors, these, and waits."""
    _C.sync(None if tensors is None else list(tensors))


def metrics():
    """What was counted since the process began: compiles, executions, fallbacks by op, bytes, …"""
    return _C.metrics()


def report():
    """The same in words, with the compiled steps and graphs that live."""
    return _C.report()


def explain():
    """Why programs were compiled, each beside the nearest one before it."""
    return _C.explain()


def expect_no_compile():
    """with tpubridge.expect_no_compile(): any compile inside raises CompilationError, in any thread."""
    return _C.NoCompile()


def set_fallback(mode):
    """What happens to an op that the device cannot compute: "allow" (the CPU does), "warn" (once an op) or "error".
    Returns the old setting."""
    return _C.set_fallback(mode)


def set_check_indices(on):
    """Whether an index out of range raises IndexError at the call, as on the CPU; it waits for the indices. Returns the
    old setting."""
    return _C.set_check_indices(on)


def set_memory_limit(bytes):
    """The most that tensors of each device may hold; 0 takes the limit away. Returns the old one."""
    return _C.set_memory_limit(bytes)


def reopen_device():
    """For a device that is lost (TPUDeviceError): gives it up with all that was on it, and opens it again."""
    _C.reopen_device()

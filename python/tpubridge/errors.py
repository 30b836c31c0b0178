"""What tpubridge raises: the classes of its C++ side, with what happened, the facts of it, and what to do next.

All are RuntimeErrors, as what torch raises is. `except tpubridge.errors.TPUBackendError` catches whatever comes from the
device; those of memory are torch.OutOfMemoryErrors too, and those of arguments ValueErrors.
"""
import torch as _torch


class Error(RuntimeError):
    """`message` what happened, `details` the facts, `hint` what to do next, `code` PJRT's status ("ok": it has none)."""

    def __init__(self, text="", message=None, details=None, hint="", code="ok"):
        super().__init__(text)
        self.message = text if message is None else message
        self.details = dict(details or {})
        self.hint = hint
        self.code = code

    def __reduce__(self):
        return type(self), (str(self), self.message, self.details, self.hint, self.code)


class ArgumentError(Error, ValueError):
    """A caller passed something that cannot be used."""


class FileError(Error):
    """A file is missing, unreadable, unwritable or corrupt."""


class ProgramError(Error):
    """A StableHLO program is wrong: types, shapes, syntax."""


class ConfigurationError(Error):
    pass


class DeviceError(Error):
    pass


class DeviceNotAvailableError(DeviceError):
    pass


class CompilationError(Error):
    pass


class OutOfMemoryError(Error, _torch.OutOfMemoryError):
    pass


class BackendError(Error):
    pass


class TPUBackendError(BackendError):
    pass


class PluginError(TPUBackendError):
    """A plugin cannot be found, loaded or used."""


class UnsupportedError(TPUBackendError):
    """This plugin, or this version, has no such function."""


class PjrtError(TPUBackendError):
    """Any other error that a plugin returned."""


class KernelError(TPUBackendError):
    """An op of the user's own failed in a program."""


class XLACompilationError(CompilationError, TPUBackendError):
    pass


class XLACompilationTimeoutError(XLACompilationError):
    pass


class TPUMemoryError(OutOfMemoryError, TPUBackendError):
    pass


class TPUOutOfMemoryError(TPUMemoryError):
    pass


class TPUMemoryLimitError(TPUOutOfMemoryError):
    """Our own limit, before anything is allocated (tpubridge.set_memory_limit)."""


class TPUDeviceError(DeviceError, TPUBackendError):
    pass


class TPUNotAvailableError(DeviceNotAvailableError, TPUBackendError):
    pass


class TPUConfigurationError(ConfigurationError, TPUBackendError):
    pass


class TPUValidationError(TPUBackendError):
    pass


class TPUDistributedError(TPUBackendError):
    pass


class TPUCacheError(FileError, TPUBackendError):
    pass


class TPUCheckpointError(TPUBackendError):
    pass


class TPUModelPreparationError(TPUBackendError):
    pass


class MemoryPoolError(Error):
    pass


class TPUMemoryPoolError(MemoryPoolError, TPUMemoryError):
    pass


class OptimizationError(Error):
    pass


class TPUOptimizationError(OptimizationError, TPUBackendError):
    pass


_INSIDE = {"CompileForbidden": CompilationError}  # classes of C++ that nobody can name there either


def _class(name):
    found = _INSIDE.get(name) or globals().get(name)
    return found if isinstance(found, type) and issubclass(found, Error) else Error


def _raise(name, text, message, details, hint, code):
    """Called by the extension; `name` is the class in C++."""
    raise _class(name)(text, message, details, hint, code)

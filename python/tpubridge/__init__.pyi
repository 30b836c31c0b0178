import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

import torch

from . import errors as errors
from . import tpu as tpu

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Path = str | os.PathLike[str]

__version__: str

class CompiledStep(Generic[_P, _R]):
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def report(self) -> dict[str, Any]: ...

@overload
def compile(function: Callable[_P, _R], *, name: str | None = None) -> CompiledStep[_P, _R]: ...
@overload
def compile(function: None = None, *, name: str | None = None) -> Callable[[Callable[_P, _R]], CompiledStep[_P, _R]]: ...

class LoadedModule(torch.nn.Module):
    @property
    def input_names(self) -> list[str]: ...
    @property
    def output_names(self) -> list[str]: ...
    def save(self, path: _Path) -> None: ...

def load(path: _Path) -> LoadedModule: ...

class ExportedProgram:
    text: str
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    weights: list[tuple[str, str]]
    parameters: list[str]

def export_program(
    function: Callable[..., Any],
    inputs: Mapping[str, torch.Tensor],
    *,
    modules: Mapping[str, torch.nn.Module] | None = None,
    weights_as_constants: bool = False,
    name: str | None = None,
) -> ExportedProgram: ...
def save_package(
    path: _Path,
    function: Callable[..., Any],
    inputs: Mapping[str, torch.Tensor] | Sequence[Mapping[str, torch.Tensor]],
    *,
    tpus: Iterable[str] = (),
    this_machine: bool = True,
    modules: Mapping[str, torch.nn.Module] | None = None,
    name: str | None = None,
) -> dict[str, Any]: ...
def fit(
    what: _Path | Callable[..., Any], inputs: Mapping[str, torch.Tensor] | None = None, **options: Any
) -> dict[str, Any]: ...
def sync(tensors: Iterable[torch.Tensor] | None = None) -> None: ...
def metrics() -> dict[str, Any]: ...
def report() -> str: ...
def explain() -> str: ...
def expect_no_compile() -> AbstractContextManager[Any]: ...
def set_fallback(mode: Literal["allow", "warn", "error"]) -> str: ...
def set_check_indices(on: bool) -> bool: ...
def set_memory_limit(bytes: int) -> int: ...
def reopen_device() -> None: ...

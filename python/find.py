"""Says how an extension for this Python is built: program;include;suffix;torch;version. Ends with 1 and the reason where
this Python's torch is not that of the build. Nothing is imported of torch: that takes seconds.

find.py FOLDER_OF_THE_BUILD'S_TORCH
"""
import importlib.util
import pathlib
import re
import sys
import sysconfig


def version(torch):
    for header in ("headeronly/version.h", "csrc/api/include/torch/version.h"):
        file = torch / "include/torch" / header
        numbers = re.findall(r"#define TORCH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read_text()) if file.is_file() else []
        if len(numbers) == 3:
            return ".".join(numbers)
    return None


def main():
    home = pathlib.Path(sys.argv[1])
    spec = importlib.util.find_spec("torch")
    torch = pathlib.Path(spec.origin).parent if spec and spec.origin else None
    if torch is None or not (torch / "lib/libtorch_python.so").is_file():
        sys.exit(f"{sys.executable} has no torch")
    mine, built = version(torch), version(home)
    if mine != built or mine is None:
        sys.exit(f"{sys.executable} has torch {mine}, the build {built}")
    sizes = [(t / "lib/libtorch_cpu.so").stat().st_size for t in (torch, home)]
    if sizes[0] != sizes[1]:
        sys.exit(f"{sys.executable} has another build of torch {mine}")
    include = sysconfig.get_paths()["include"]
    if not (pathlib.Path(include) / "Python.h").is_file():
        sys.exit(f"{sys.executable} has no headers (on Debian: python3-dev)")
    print(";".join([sys.executable, include, sysconfig.get_config_var("EXT_SUFFIX"), str(torch), mine]))


main()

"""Packs the built package as a wheel, for one Python, one machine and one minor version of torch.

Libraries that another machine may lack lie beside ours, as in the tarball, each with its licence; torch itself, glibc and the
compiler's libraries do not. Nothing of the machine that built it stays in a file: where a library is looked for are places
beside itself alone.
"""
import argparse
import base64
import hashlib
import pathlib
import platform
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

EVERY_MACHINES = re.compile(r"(ld-linux|lib(c|m|dl|rt|util|pthread|stdc\+\+|gcc_s|atomic)\.so|linux-vdso)")
TORCHS = re.compile(r"lib(torch|c10|cud|cupti|nvrtc|gomp|tpubridge)")
# Those that need torch find it by what the entry point tells them (_command.py).
COMMANDS = ["tpubridge", *(f"tpubridge-{part}" for part in ("aot", "bench", "compile", "demo", "generate", "model", "plan", "train"))]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cut_paths(file):
    """Of where a file looks for libraries only what lies beside it stays: CMake wrote those first."""
    found = re.search(r"\((?:RUNPATH|RPATH)\)[^\n]*\[([^\n]*)\]", run("readelf", "-d", "-W", str(file)))
    if not found:
        return
    old = found.group(1)
    new = ":".join(p for p in old.split(":") if re.match(r"\$ORIGIN(/|$)", p))
    if old == new:
        return
    data = file.read_bytes()
    before, after = old.encode() + b"\0", new.encode()
    if data.count(before) < 1:
        sys.exit(f"{file.name}: its RUNPATH was not found")
    at = data.index(before)
    file.write_bytes(data[:at] + after.ljust(len(before), b"\0") + data[at + len(before):])


def needed(files, folders):
    """name → path of the libraries that the files need and every machine need not have."""
    out = {}
    for file in files:
        for line in run("env", "LD_LIBRARY_PATH=" + ":".join(folders), "ldd", str(file)).splitlines():
            match = re.match(r"\s*(\S+) => (\S+) \(", line)
            if match and not EVERY_MACHINES.match(match.group(1)) and not TORCHS.match(match.group(1)):
                if "/torch/" not in match.group(2) and "/nvidia/" not in match.group(2):
                    out[match.group(1)] = pathlib.Path(match.group(2)).resolve()
    return out


def licence_of(library, name):
    owner = subprocess.run(["dpkg-query", "-S", f"*/{name}"], capture_output=True, text=True).stdout
    text = pathlib.Path("/usr/share/doc") / re.split("[:,]", owner)[0] / "copyright"
    if not owner or not text.is_file():
        sys.exit(f"no licence of {library} was found: it cannot be given away")
    return text


def fill(tree, package, args):
    """The files of the wheel."""
    target = tree / "tpubridge"
    (target / "lib/tpubridge").mkdir(parents=True)
    (target / "bin").mkdir()
    for file in sorted(package.iterdir()):
        if file.suffix in (".py", ".pyi", ".so") or file.name == "py.typed":
            shutil.copy(file.resolve(), target / file.name)
    for name in ("libtpubridge.so.0", "libtpubridge_core.so.0"):
        shutil.copy((package / "lib" / name).resolve(), target / "lib" / name)
    plugin = target / "lib/tpubridge/xla_cpu_pjrt.so"
    shutil.copy((package / "lib/tpubridge/xla_cpu_pjrt.so").resolve(), plugin)
    for name in COMMANDS:
        if (package / "bin" / name).is_file():
            shutil.copy((package / "bin" / name).resolve(), target / "bin" / name)
    ours = [f for f in target.rglob("*") if f.is_file() and (f.suffix == ".so" or ".so." in f.name or f.parent.name == "bin")]
    mine = platform.machine()
    for file in ours:
        if file != plugin and not (file.name == "tpubridge-aot" and mine != "x86_64"):
            run("strip", "--strip-unneeded", str(file))
            cut_paths(file)
    native = [f for f in ours if f.name != "tpubridge-aot"]
    licences = {"tpubridge.copyright": pathlib.Path(args.licence), "Apache-2.0": pathlib.Path("/usr/share/common-licenses/Apache-2.0")}
    for name, path in needed(native, [str((package / "lib").resolve())]).items():
        shutil.copy(path, target / "lib" / name)
        licences[f"{name}.copyright"] = licence_of(path, name)
    return licences


def pack(tree, name, tag, args, licences):
    info = f"tpubridge-{args.version}.dist-info"
    minor = ".".join(args.torch.split(".")[:2])
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: tpubridge\nVersion: {args.version}\n"
                    "Summary: torch.device(\"tpu\"): PyTorch on TPUs by StableHLO and PJRT\n"
                    f"Requires-Python: =={python}.*\nRequires-Dist: torch (=={minor}.*)\nRequires-Dist: numpy\n",
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: tpubridge {args.version}\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "entry_points.txt": (pathlib.Path(__file__).parent / "entry_points.txt").read_text(),
    }
    files = [(f.relative_to(tree).as_posix(), f.read_bytes(), f) for f in sorted(tree.rglob("*")) if f.is_file()]
    files += [(f"{info}/licenses/{n}", p.read_bytes(), None) for n, p in sorted(licences.items()) if p.is_file()]
    files += [(f"{info}/{n}", t.encode(), None) for n, t in texts.items()]
    record = ""
    out = pathlib.Path(args.out) / name
    part = out.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as z:
        for path, data, source in files:
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            program = source is not None and source.parent.name == "bin"
            entry.external_attr = (stat.S_IFREG | (0o755 if program else 0o644)) << 16
            z.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
        z.writestr(zipfile.ZipInfo(f"{info}/RECORD", (1980, 1, 1, 0, 0, 0)), record + f"{info}/RECORD,,\n")
    part.rename(out)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("package", "out", "version", "torch", "licence"):
        parser.add_argument("--" + option, required=True)
    args = parser.parse_args()
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    pathlib.Path(args.out).mkdir(parents=True, exist_ok=True)
    for old in pathlib.Path(args.out).glob("tpubridge-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory(dir=args.out, prefix=".part-") as folder:
        tree = pathlib.Path(folder)
        licences = fill(tree, pathlib.Path(args.package), args)
        print(pack(tree, f"tpubridge-{args.version}-{tag}.whl", tag, args, licences))


main()

#!/usr/bin/env python3
"""Packs the build as a tarball and as a Debian package, unpacks both elsewhere and uses them with an empty environment."""
import argparse
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# What every machine has that runs a torch wheel. The rest comes in the tarball.
EVERYWHERE = re.compile(r"(ld-linux|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so)")
TORCH = re.compile(r"lib(torch|c10)")
PROGRAM = """module { func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.multiply %x, %x : tensor<3xf32>
  return %y : tensor<3xf32> } }
"""


def call(*command, **variables):
    """What a program prints. Nothing of this process's environment tells it where libraries are."""
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C", "TPU_SKIP_MDS_QUERY": "1", "TPUBRIDGE_CACHE": "0"}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env | variables, cwd="/")
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def pack(build, generator, out):
    done = subprocess.run(["cpack", "--config", build / "CPackConfig.cmake", "-G", generator, "-B", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(out / "_CPack_Packages")
    (package,) = [f for f in out.iterdir() if f.suffix in (".gz", ".deb")]
    return package


def is_elf(file):
    return not file.is_symlink() and file.is_file() and file.open("rb").read(4) == b"\x7fELF"


def check_libraries(root, complete, builder):
    """Where the files look for libraries, and what they find there. `complete`: nothing but what every machine has comes
    from outside of the tree."""
    files = [f for f in root.rglob("*") if is_elf(f)]
    assert len(files) >= 3, files
    for file in files:
        dynamic = call("readelf", "-d", "-W", file)
        for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
            for entry in path.split(":"):
                assert re.fullmatch(r"\$ORIGIN(/.*)?", entry), f"{file} looks into {entry!r} of {path}"
        machine = re.search("Machine: *(.*)", call("readelf", "-h", file)).group(1)
        if machine != re.search("Machine: *(.*)", call("readelf", "-h", sys.executable)).group(1):
            continue  # tpubridge-aot, where that runs in an emulator
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        for name, place in re.findall(r"^\s*(\S+) => (\S.*?)(?: \(0x.*)?$", call("ldd", file), re.M):
            inside = place.startswith(str(root))
            if TORCH.match(name):
                assert place == "not found", f"{file}: {name} is {place}, though nobody gave it a torch"
            elif place == "not found":
                # A library of the distribution has no path of its own: who loads it has loaded the other already.
                assert name not in needed or complete and (root / "lib" / name).exists(), f"{file}: {name} was not found"
            elif complete and file.parent.name == "bin":
                assert inside or EVERYWHERE.match(name), f"{file}: {name} is this machine's, {place}"
    for file in root.rglob("*.cmake"):
        assert builder not in file.read_text(), f"{file} names {builder}"


def check_programs(root, version, torch):
    command = root / "bin/tpubridge"
    assert version in call(command, "--version")
    devices = json.loads(call(command, "devices", "--plugin", "cpu", "--json"))
    assert str(root) in json.dumps(devices), f"the plugin of {root} is not the one: {devices}"
    program = root.parent / "square.mlir"
    program.write_text(PROGRAM)
    call(command, "run", program, "--plugin", "cpu", "--random", "1")
    if torch:  # by the variable, and by the link
        call(command, "demo", "configuration", TPUBRIDGE_TORCH_DIR=torch)
        (root / "lib/tpubridge/torch").symlink_to(torch)
        call(command, "demo", "backend", TPUBRIDGE_PLUGIN="cpu")
        assert "not found" not in call("ldd", root / "bin/tpubridge-demo")


def check_consumer(root, work, cxx):
    """The README's second program, against the unpacked tarball."""
    readme = (HERE.parents[1] / "README.md").read_text()
    programs = work / "programs"
    programs.mkdir()
    (programs / "core.cc").write_text(re.findall(r"```cpp\n(.*?)```", readme, re.S)[1])
    call("cmake", "-S", HERE, "-B", work / "consumer", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={root}", f"-DPROGRAMS={programs}",
         f"-DCMAKE_CXX_COMPILER={cxx}", "-DCMAKE_BUILD_TYPE=Debug")
    call("cmake", "--build", work / "consumer")
    call(work / "consumer/core")


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "cxx", "version", "torch"):
        parser.add_argument("--" + name, required=True)
    given = parser.parse_args()
    build = pathlib.Path(given.build).resolve()
    work = build / "packed-test"
    shutil.rmtree(work, ignore_errors=True)
    (work / "tar").mkdir(parents=True)

    tarball = pack(build, "TGZ", work / "tgz")
    assert tarball.name == f"tpubridge-{given.version}-linux-{os.uname().machine}.tar.gz", tarball
    call("tar", "-xzf", tarball, "-C", work / "tar")
    root = work / "tar" / tarball.name.removesuffix(".tar.gz")
    check_libraries(root, True, str(build))
    check_consumer(root, work, given.cxx)
    check_programs(root, given.version, given.torch)

    if all(shutil.which(tool) for tool in ("dpkg-deb", "dpkg-shlibdeps", "file")):
        package = pack(build, "DEB", work / "deb")
        fields = call("dpkg-deb", "--field", package, "Package", "Version", "Depends", "Maintainer", "Section", "Description")
        assert re.search(r"^Depends: .*libc6 .*libfmt", fields, re.M), fields
        call("dpkg-deb", "-x", package, work / "deb/root")
        check_libraries(work / "deb/root/usr", False, str(build))
        shared = work / "deb/root/usr/share"
        assert "tpubridge (" + given.version + ")" in gzip.open(shared / "doc/tpubridge/changelog.gz", "rt").read()
        assert "has chosen no licence yet" in (shared / "doc/tpubridge/copyright").read_text()
        for program in (work / "deb/root/usr/bin").iterdir():
            assert ".SH NAME" in gzip.open(shared / f"man/man1/{program.name}.1.gz", "rt").read()
        check_programs(work / "deb/root/usr", given.version, given.torch)
    else:
        print("no dpkg-dev here: the Debian package was left out")
    shutil.rmtree(work)


main()

#!/usr/bin/env python3
"""Where the programs and libraries under some folders look for libraries: never where somebody else may put one.

An empty entry of a RUNPATH, "." or a relative one is the current folder, or is found from there.
"""
import pathlib
import re
import subprocess
import sys


def entries(file):
    """The entries of the file's RPATH and RUNPATH."""
    text = subprocess.run(["readelf", "-d", "-W", file], capture_output=True, text=True, check=True,
                          env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout
    found = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", text)
    return [entry for path in found for entry in path.split(":")]


def safe(entry):
    inside = entry.removeprefix("$ORIGIN") if entry == "$ORIGIN" or entry.startswith("$ORIGIN/") else entry
    return inside.startswith("/") or entry == "$ORIGIN"


def main(folders):
    seen = with_path = 0
    bad = []
    for folder in folders:
        for file in sorted(pathlib.Path(folder).rglob("*")):
            if file.is_symlink() or not file.is_file() or file.open("rb").read(4) != b"\x7fELF":
                continue
            seen += 1
            found = entries(file)
            with_path += bool(found)
            bad += [f"{file}: {entry!r} in {':'.join(found)}" for entry in found if not safe(entry)]
    print(f"{seen} files, {with_path} with a RUNPATH")
    for line in bad:
        print(line)
    assert [safe(e) for e in ("", ".", "lib", "$ORIGINAL/x", "$ORIGIN", "$ORIGIN/../lib", "/usr/lib")] == \
        [False, False, False, False, True, True, True]
    return bool(bad) or with_path == 0


sys.exit(main(sys.argv[1:]))

"""The command `tpubridge` that lies in the package, and what Python asks of it."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

_BIN = pathlib.Path(__file__).parent / "bin"


def program():
    return str(_BIN / "tpubridge")


def _environment():
    """With the place of torch, for the parts of the command that are linked to it."""
    found = importlib.util.find_spec("torch")
    folder = os.path.dirname(found.origin) if found and found.origin else ""
    return {"TPUBRIDGE_TORCH_DIR": folder, **os.environ} if folder else dict(os.environ)


def main():
    """The command itself."""
    os.execve(program(), ["tpubridge", *sys.argv[1:]], _environment())


def _options(options):
    out = []
    for key, value in options.items():
        flag = "--" + key.replace("_", "-")
        if value is None or value is False:
            continue
        out += [flag] if value is True else [flag, ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)]
    return out


def fit(what, inputs=None, **options):
    """Whether a program compiles for TPUs and fits them, by Google's compiler, with no TPU: what `tpubridge fit --json`
    says, as Python has it. `what`: a file (StableHLO), or a function or module with examples of its inputs. Options are the
    command's: fit(model, {"x": x}, tpu="v5e"), all=True, timeout=600, …"""
    from tpubridge import errors

    with tempfile.TemporaryDirectory(prefix="tpubridge-") as folder:
        if inputs is not None:
            from tpubridge._export import export_program

            file = os.path.join(folder, "program.mlir")
            pathlib.Path(file).write_text(export_program(what, inputs).text)
        else:
            file = os.fspath(what)
        ran = subprocess.run([program(), "fit", file, "--json", *_options(options)], capture_output=True, text=True,
                             env=_environment())
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        answer = None
    problem = answer.get("error") if isinstance(answer, dict) else {}
    if problem is not None:
        text = problem.get("message") or ran.stderr.strip() or f"tpubridge fit ended with status {ran.returncode}"
        raise errors._class(problem.get("error_type", "Error"))(
            text, None, problem.get("details"), problem.get("hint", ""), problem.get("code", "ok"))
    return answer

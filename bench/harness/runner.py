"""Runs the programs that are compared, in turns, and writes down what they say."""
import json, os, pathlib, resource, subprocess, tempfile, threading, time

from . import figures
from .workloads import JAX, OURS, TORCH

MODES = {OURS: "replayed", "traced": "traced", "libtorch": "libtorch", "jax": "client", "jax_plugin": "plugin", "torch": "eager",
         "torch_compile": "compile"}


class Failed(Exception):
    pass


def free_cores(wanted):
    """How many cores `wanted` busy processes get at this moment."""
    start, children = time.perf_counter(), []
    for _ in range(wanted):
        child = os.fork()
        if child == 0:
            while time.perf_counter() - start < 0.06:
                pass
            os._exit(0)
        children.append(child)
    used = sum(sum(os.wait4(c, 0)[2][:2]) for c in children)
    return used / (time.perf_counter() - start)


class Programs:
    """Where the programs are, and what they are told by the environment."""

    def __init__(self, build, plugin, jax_python, torch_python, machine, log):
        self.build, self.plugin, self.machine, self.log = pathlib.Path(build), plugin, machine, pathlib.Path(log)
        self.python = {**{w: jax_python for w in JAX}, **{w: torch_python for w in TORCH}}
        self.peers = pathlib.Path(__file__).resolve().parent.parent / "peers"

    def has(self, who):
        return who not in self.python or bool(self.python[who])

    def command(self, who, work, sizes, *options):
        rest = [work, MODES[who], *options, *(f"{k}={v}" for k, v in sizes.items())]
        if who in self.python:
            return [self.python[who], str(self.peers / ("jax_peer.py" if who in JAX else "torch_peer.py")), *rest]
        return [str(self.build / "bin/tpubridge_workloads"), *rest]

    def environment(self, cache):
        """`cache`: the folder where each keeps what it compiled."""
        env = dict(os.environ, TPU_SKIP_MDS_QUERY="1", TPUBRIDGE_CACHE_DIR=f"{cache}/tpubridge", BENCH_PLUGIN=self.plugin,
                   BENCH_CORE=str(self.build / "lib/libtpubridge_core.so"), JAX_COMPILATION_CACHE_DIR=f"{cache}/jax",
                   TORCHINDUCTOR_CACHE_DIR=f"{cache}/torch", PYTHONDONTWRITEBYTECODE="1", TPUBRIDGE_PLUGIN=self.plugin)
        if self.machine == "cpu":
            env |= {"JAX_PLATFORMS": "cpu", "BENCH_DEVICE": "cpu", "TPUBRIDGE_CPU_DEVICES": "1"}
        else:
            env |= {"BENCH_DEVICE": "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TPUBRIDGE_PREALLOCATE": "0"}
        return env


class Process:
    """A program that answers in lines of JSON; killed when it takes longer than `patience` for one."""

    def __init__(self, programs, who, work, sizes, cache, *options, patience=900):
        self.patience = patience
        programs.log.mkdir(parents=True, exist_ok=True)
        self.errors = open(programs.log / f"{work}.{who}.log", "a")
        self.child = subprocess.Popen(programs.command(who, work, sizes, *options), env=programs.environment(cache), text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def read(self):
        timer = threading.Timer(self.patience, self.child.kill)
        timer.start()
        try:
            for line in self.child.stdout:
                if not line.startswith("{"):
                    continue
                said = json.loads(line)
                if "error" in said:
                    raise Failed(said["error"])
                return said
        finally:
            timer.cancel()
        raise Failed(f"ended with {self.child.wait()} and no answer; see {self.errors.name}")

    def measure(self, samples, calls, wait):
        self.child.stdin.write(f"measure {samples} {calls} {wait}\n")
        self.child.stdin.flush()
        return self.read()

    def close(self):
        self.child.stdin.close()
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()
        self.errors.close()


class Runner:
    """`emit` takes each measured line. `turns`: how often the programs of a row change over."""

    def __init__(self, programs, emit, cache, turns=5, retries=3, quick=False, show=lambda text: None):
        self.programs, self.emit, self.cache, self.turns, self.retries = programs, emit, pathlib.Path(cache), turns, retries
        self.quick, self.show = quick, show
        self.cores = os.cpu_count() or 1
        self.probed = min(self.cores, 4)
        self.versions = {}

    def who(self, row):
        return [w for w in row.who if self.programs.has(w)]

    def calm(self, row, measure):
        """Measures; where somebody else used the machine meanwhile, again, and in the end marks it."""
        for attempt in range(self.retries):
            before = free_cores(self.probed)
            line = measure()
            line |= {"free_cores": min(before, free_cores(self.probed)), "probed": self.probed}
            line["disturbed"] = figures.disturbed(line, row.parallel, self.cores)
            if not line["disturbed"]:
                return line
            time.sleep(0 if attempt + 1 == self.retries else 2)
        return line

    def turns_of(self, rows):
        """Rows over the same programs and sizes; also the facts that these tell."""
        row = rows[0]
        running = {}
        everybody = [w for w in dict.fromkeys(w for r in rows for w in r.who) if self.programs.has(w)]
        try:
            for who in everybody:
                self.show(f"{row.work}: {who} gets ready")
                try:
                    running[who] = Process(self.programs, who, row.work, row.sizes, self.cache)
                    ready = running[who].read()
                except Failed as error:
                    self.fail(rows, who, error)
                    running.pop(who).close()
                    continue
                self.versions[who] = ready.get("versions", {})
                for r in rows:
                    if r.kind == "fact" and who in r.who and ready["facts"].get("peak_bytes"):
                        self.emit({"row": r.name, "who": who, "samples": [ready["facts"]["peak_bytes"]]})
            for r in rows:
                if r.kind == "turns":
                    self.take_turns(r, {w: p for w, p in running.items() if w in r.who})
        finally:
            for process in running.values():
                process.close()

    def take_turns(self, row, running):
        order = list(running)
        for turn in range(self.turns):
            self.show(f"{row.name}: turn {turn + 1} of {self.turns}")
            for who in order[turn % len(order):] + order[:turn % len(order)] if order else []:
                samples = max(1, row.samples // 3) if self.quick else row.samples
                try:
                    line = self.calm(row, lambda: running[who].measure(samples, row.calls, row.wait))
                except (Failed, BrokenPipeError) as error:
                    self.fail([row], who, error)
                    continue
                self.emit({"row": row.name, "who": who, "calls": len(line["samples"]) * row.calls, **line})

    def fail(self, rows, who, error):
        for row in rows:
            if who in row.who:
                self.emit({"row": row.name, "who": who, "error": str(error)})

    def fresh(self):
        return tempfile.TemporaryDirectory(prefix="bench-cache-")

    def once(self, row, who, cache):
        """Seconds from the start of a process until it says that the first step is done."""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        process = Process(self.programs, who, row.work, row.sizes, cache, "--once")
        try:
            process.read()
            wall = time.perf_counter() - start
        finally:
            process.close()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"samples": [wall], "cpu": cpu, "wall": time.perf_counter() - start}

    def start(self, row):
        times = 1 if self.quick else 5 if row.cache == "warm" else 2
        self.each_with_caches(row, times, self.once)

    def each_with_caches(self, row, times, measure):
        """Cold: an empty folder every time. Warm: one that each has filled before."""
        with self.fresh() as warm:
            for turn in range(times + (row.cache == "warm")):
                for who in self.who(row):
                    self.show(f"{row.name}: {who}, {turn + 1} of {times}")
                    try:
                        if row.cache == "warm":
                            line = self.calm(row, lambda: measure(row, who, warm)) if turn else measure(row, who, warm)
                            if turn == 0:
                                continue
                        else:
                            with self.fresh() as cold:
                                line = self.calm_once(row, lambda: measure(row, who, cold))
                    except Failed as error:
                        self.fail([row], who, error)
                        continue
                    self.emit({"row": row.name, "who": who, **line})

    def calm_once(self, row, measure):
        """For what cannot be repeated: marked at once."""
        before, self.retries = self.retries, 1
        try:
            return self.calm(row, measure)
        finally:
            self.retries = before

    def compile(self, rows):
        """Cold, then from disk, then once more in that process."""
        by = {r.cache: r for r in rows}
        first = rows[0]
        for who in self.who(first):
            self.show(f"compile {first.work}: {who}")
            with self.fresh() as cache:
                for name in ("cold",) if set(by) == {"cold"} else ("cold", "warm"):
                    def measure():
                        process = Process(self.programs, who, first.work, first.sizes, cache, "--compile")
                        try:
                            return process.read()
                        finally:
                            process.close()
                    try:
                        line = self.calm_once(first, measure)
                    except Failed as error:
                        self.fail(rows, who, error)
                        break
                    common = {k: line[k] for k in ("free_cores", "probed", "disturbed")}
                    if name in by:
                        self.emit({"row": by[name].name, "who": who, "samples": [line["first"]], **common})
                    if name == "warm" and "again" in line and "memory" in by:
                        self.emit({"row": by["memory"].name, "who": who, "samples": [line["again"]], **common})

    def replay(self, rows):
        """The figures of Google Benchmark: a replayed step less the program alone."""
        self.show("replay")
        command = [str(self.programs.build / "bin/tpubridge_bench_device"), "--benchmark_filter=state|replayed", "--benchmark_format=json",
                   f"--benchmark_repetitions={1 if self.quick else 7}", "--benchmark_enable_random_interleaving=true"]
        def measure():
            done = subprocess.run(command, capture_output=True, text=True, env=self.programs.environment(self.cache))
            if done.returncode:
                raise Failed(done.stderr[-300:])
            return {"runs": [b for b in json.loads(done.stdout)["benchmarks"] if b["run_type"] == "iteration"]}
        try:
            line = self.calm(rows[0], measure)
        except Failed as error:
            return self.fail(rows, OURS, error)
        for row in rows:
            def seconds(name):
                return [b["real_time"] * 1e-9 for b in line["runs"] if b["name"].startswith(f"{name}/{row.work}/")]
            alone = figures.quantile(seconds("raw_execute_of_state"), 0.5)
            self.emit({"row": row.name, "who": OURS, "samples": [s - alone for s in seconds("replayed_step")],
                       **{k: line[k] for k in ("free_cores", "probed", "disturbed")}})

    def run(self, rows):
        groups = {}
        for row in rows:  # rows of one program with one set of sizes share its processes
            key = {"compile": ("compile", row.work), "replay": "replay", "start": row.name}.get(row.kind, (row.work,))
            if row.kind == "turns":
                key = (row.work, tuple(sorted(row.sizes.items())))
            if row.kind == "fact":
                key = next((k for k in groups if k[0] == row.work), None)
                if key is None:
                    raise ValueError(f"{row.name} needs the row that measures {row.work}")
            groups.setdefault(key, []).append(row)
        for key, members in groups.items():
            if members[0].kind == "compile":
                self.compile(members)
            elif key == "replay":
                self.replay(members)
            elif members[0].kind == "start":
                self.start(members[0])
            else:
                self.turns_of(members)



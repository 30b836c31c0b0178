"""The side of a peer: one workload in one process, spoken to as build/bin/tpubridge_workloads is (its head says how)."""
import json, resource, statistics, sys, time


class Workload:
    """call(): once, and wait. many(n): so often, one wait at the end. renew(): forget what was compiled. facts(): not times."""

    def __init__(self, call, many=None, renew=None, facts=None):
        self.call, self.many, self.renew, self.facts = call, many, renew, facts


def say(**line):
    print(json.dumps(line), flush=True)


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(work, samples, calls, wait):
    taken, cpu, wall = [], cpu_seconds(), time.perf_counter()
    for _ in range(samples):
        start = time.perf_counter()
        if wait == "last" and work.many:
            work.many(calls)
        else:
            for _ in range(calls):
                work.call()
        taken.append((time.perf_counter() - start) / calls)
    say(samples=taken, cpu=cpu_seconds() - cpu, wall=time.perf_counter() - wall)


def first_calls(work):
    taken = []
    for _ in range(8):
        start = time.perf_counter()
        work.call()
        taken.append(time.perf_counter() - start)
    later = statistics.median(taken[5:])
    return sum(t - later for t in taken[:5])


def serve(work, versions):
    for _ in range(5):
        work.call()
    if work.many:
        work.many(2)
    say(ready=True, facts=work.facts() if work.facts else {}, versions=versions)
    for line in sys.stdin:
        word, samples, calls, wait = line.split()
        if word != "measure":
            raise ValueError(f"not a request: {line}")
        measure(work, int(samples), int(calls), wait)


def main(workloads, versions, setup):
    """workloads: name -> function of (mode, sizes); setup(mode) runs before anything else."""
    name, mode, *rest = sys.argv[1:]
    option = next((r for r in rest if "=" not in r), "")
    sizes = {k: int(v) if v.lstrip("-").isdigit() else v for k, v in (r.split("=", 1) for r in rest if "=" in r)}
    try:
        setup(mode)
        work = workloads[name](mode, sizes)
        if option == "--once":
            work.call()
            say(done=True)
        elif option == "--compile":
            line = {"first": first_calls(work)}
            if work.renew:
                work.renew()
                line["again"] = first_calls(work)
            say(**line)
        else:
            serve(work, versions())
    except Exception as error:  # the driver shows it in the place of a figure
        say(error=f"{type(error).__name__}: {error}")
        raise

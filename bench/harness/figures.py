"""From measured lines to figures: medians, spread, ratios, targets. No clock, no process: the same lines give the same figures."""
import statistics

from . import workloads

# Below this many of the cores that were asked for, somebody else used the machine.
ENOUGH = 0.75


def quantile(values, q):
    """Linear between the two nearest."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * q
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def disturbed(line, parallel, cores):
    """Why a measurement does not count as calm; empty where it does."""
    if line.get("free_cores") is not None and line["free_cores"] < ENOUGH * line.get("probed", cores):
        return f"{line['free_cores']:.1f} cores free"
    if parallel and cores > 1 and line.get("wall") and line["cpu"] / line["wall"] < 1.2:
        return "one core"
    return ""


def figure(lines):
    """Of the lines of one row and one program."""
    errors = [l["error"] for l in lines if "error" in l]
    samples = [s for l in lines for s in l.get("samples", [])]
    if errors or not samples:
        return {"error": errors[0] if errors else "no samples"}
    wall, calls = sum(l.get("wall", 0) for l in lines), sum(l.get("calls", 0) for l in lines)
    cpu = sum(l.get("cpu", 0) for l in lines)
    return {
        "median": statistics.median(samples), "p10": quantile(samples, 0.1), "p90": quantile(samples, 0.9), "samples": len(samples),
        "cpu_per_wall": cpu / wall if wall else None,
        "cpu": cpu / calls if calls else None,  # seconds of all cores together per call
        "disturbed": next((l["disturbed"] for l in lines if l.get("disturbed")), ""),
    }


def verdict(target, figures):
    """{text, ratio, met}; met is None where there is nothing to compare with."""
    ours = figures.get(workloads.OURS, {}).get("median")
    if target.limit:
        return {"limit": target.limit, "ratio": None, "met": None if ours is None else ours <= target.limit}
    found = {w: figures[w]["median"] for w in target.against if "median" in figures.get(w, {})}
    if ours is None or not found:
        return {"factor": target.factor, "against": None, "ratio": None, "met": None}
    best = min(found, key=found.get)
    ratio = ours / found[best]
    return {"factor": target.factor, "against": best, "ratio": ratio, "met": ratio <= target.factor}


def results(rows, lines):
    """One entry per row that has lines."""
    out = []
    for row in rows:
        by = {}
        for line in lines:
            if line.get("row") == row.name:
                by.setdefault(line["who"], []).append(line)
        if not by:
            continue
        figures = {who: figure(by[who]) for who in workloads.LABELS if who in by}
        ours = next((figures[w]["median"] for w in (workloads.OURS, "traced") if "median" in figures.get(w, {})), None)
        for f in figures.values():
            f["ratio"] = ours / f["median"] if ours is not None and f.get("median", 0) > 0 else None
        out.append({"name": row.name, "title": row.title, "unit": row.unit, "figures": figures,
                    "targets": [verdict(t, figures) for t in row.targets]})
    return out

"""Results as a table, for a terminal and for the manual."""
from .workloads import LABELS, UNITS


def number(value, unit):
    shown = value * UNITS[unit]
    return f"{shown:,.0f}" if shown >= 1000 else f"{shown:.0f}" if shown >= 100 else f"{shown:.3g}"


def target_text(target, unit):
    met = {True: "met", False: "MISSED", None: "open"}[target["met"]]
    if "limit" in target:
        return f"target: at most {number(target['limit'], unit)} {unit}: {met}"
    if target["ratio"] is None:
        return f"target: at most {target['factor']:g} ×: nothing to compare with"
    return f"target: at most {target['factor']:g} × {LABELS[target['against']]}: {target['ratio']:.2f} ×, {met}"


def render(head, results):
    out = [f"{head.get('machine', '')} · {head.get('date', '')}"]
    out += [f"  {who}: {', '.join(f'{k} {v}' for k, v in found.items())}" for who, found in head.get("versions", {}).items()]
    for row in results:
        out += ["", f"{row['title']}  [{row['name']}]"]
        unit = row["unit"]
        for who, f in row["figures"].items():
            if "error" in f:
                out.append(f"  {LABELS[who]:22} failed: {f['error'].splitlines()[0][:90]}")
                continue
            spread = f"{number(f['p10'], unit)} … {number(f['p90'], unit)}" if f["samples"] > 1 else ""
            busy = f"cpu/wall {f['cpu_per_wall']:.2f}" if f["cpu_per_wall"] else ""
            busy += f", cpu {number(f['cpu'], unit)}" if f["cpu"] else ""
            ratio = f"ours is {f['ratio']:.2f} ×" if f["ratio"] is not None and who not in ("tpubridge", "traced") else ""
            mark = f"! {f['disturbed']}" if f["disturbed"] else ""
            line = f"  {LABELS[who]:22} {number(f['median'], unit):>9} {unit:3}  {spread:20} {busy:27} {ratio:16} {mark}"
            out.append(line.rstrip())
        out += [f"  {target_text(t, unit)}" for t in row["targets"]]
    return "\n".join(out) + "\n"


def short_target(target, unit):
    met = {True: "met", False: "missed", None: "open"}[target["met"]]
    if "limit" in target:
        return f"≤ {number(target['limit'], unit)} {unit}: {met}"
    if target["ratio"] is None:
        return f"≤ {target['factor']:g} ×: open"
    return f"{target['ratio']:.2f} × {LABELS[target['against']]}, aim {target['factor']:g}: {met}"


def markdown(results):
    """A row per workload, a column per program; what was measured beside other work has a mark."""
    shown = [who for who in LABELS if any(who in row["figures"] for row in results)]
    out = ["| | " + " | ".join(LABELS[who] for who in shown) + " | target |", "|---" * (len(shown) + 2) + "|"]
    for row in results:
        cells = []
        for who in shown:
            f = row["figures"].get(who, {})
            mark = "\\*" if f.get("disturbed") else ""
            cells.append(f"{number(f['median'], row['unit'])}{mark}" if "median" in f else "failed" if "error" in f else "")
        targets = "; ".join(short_target(t, row["unit"]) for t in row["targets"])
        out.append(f"| {row['title']}, {row['unit']} | " + " | ".join(cells) + f" | {targets} |")
    return "\n".join(out) + "\n"

"""Results as a table for a terminal."""
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

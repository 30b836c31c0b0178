"""Results as one HTML file that needs nothing else: bars with their spread as inline SVG, in light and in dark."""
from html import escape

from .table import number, target_text
from .workloads import LABELS, OURS, UNITS

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1c1f24; --soft: #5d6673; --line: #d5dae1; --ours: #0a7d55; --other: #8fa3bd; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ground: #15181d; --ink: #e7eaee; --soft: #9aa4b1; --line: #333a44; --ours: #35c08b; --other: #5f7591; --bad: #ff8a80; } }
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .3rem; }
p, dd, dt { color: var(--soft); margin: .1rem 0; } dt { float: left; clear: left; width: 12rem; } dd { margin-left: 12rem; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--ink); font-size: 13px; } svg .soft { fill: var(--soft); }
.met { color: var(--ours); } .missed { color: var(--bad); }
"""
LEFT, WIDTH, BAR, GAP, RIGHT = 170, 440, 18, 8, 270


def bars(row):
    shown = [(who, f) for who, f in row["figures"].items()]
    most = max((f["p90"] for _, f in shown if "p90" in f), default=0) or 1
    height = len(shown) * (BAR + GAP) + GAP
    out = [f'<svg viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" role="img" aria-label="{escape(row["title"], True)}">']
    for i, (who, f) in enumerate(shown):
        top = GAP + i * (BAR + GAP)
        middle, base = top + BAR / 2, top + BAR - 5
        out.append(f'<text x="{LEFT - 8}" y="{base}" text-anchor="end">{escape(LABELS[who])}</text>')
        if "error" in f:
            out.append(f'<text class="soft" x="{LEFT + 4}" y="{base}">failed: {escape(f["error"].splitlines()[0][:80])}</text>')
            continue
        at = lambda value: LEFT + WIDTH * max(value, 0) / most
        colour = "--ours" if who == OURS else "--other"
        out.append(f'<rect x="{LEFT}" y="{top}" width="{max(at(f["median"]) - LEFT, 1):.1f}" height="{BAR}" rx="2" style="fill: var({colour})"/>')
        out.append(f'<path d="M{at(f["p10"]):.1f} {middle} H{at(f["p90"]):.1f}" style="stroke: var(--ink); stroke-width: 2"/>')
        note = f'{number(f["median"], row["unit"])} {row["unit"]}'
        if f["ratio"] is not None and who not in (OURS, "traced"):
            note += f' · ours {f["ratio"]:.2f} ×'
        if f["cpu_per_wall"]:
            note += f' · cpu/wall {f["cpu_per_wall"]:.2f}'
        if f["disturbed"]:
            note += f' · disturbed: {f["disturbed"]}'
        out.append(f'<text class="soft" x="{at(max(f["p90"], f["median"])) + 8:.1f}" y="{base}">{escape(note)}</text>')
    return "\n".join(out) + "\n</svg>"


def render(head, results):
    facts = {"machine": head.get("machine", ""), "date": head.get("date", "")}
    facts |= {LABELS.get(who, who): ", ".join(f"{k} {v}" for k, v in found.items()) for who, found in head.get("versions", {}).items()}
    body = ["<h1>tpubridge, side by side</h1>", "<dl>"]
    body += [f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items()]
    body += ["</dl>", "<p>Bars are medians, the line across them reaches from the 10th to the 90th percentile. The programs of a row "
             "took turns on the same machine. Shorter is better.</p>"]
    for row in results:
        body += [f'<h2>{escape(row["title"])}</h2>', bars(row)]
        for t in row["targets"]:
            kind = {True: "met", False: "missed", None: "open"}[t["met"]]
            body.append(f'<p class="{kind}">{escape(target_text(t, row["unit"]))}</p>')
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width"/>'
            f"<title>tpubridge, side by side</title><style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n")

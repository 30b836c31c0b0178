"""The benchmark's driver: figures of canned lines, the table, the page, and how programs take turns. No time is asserted."""
import json, os, pathlib, stat, subprocess, sys, tempfile, unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
from harness import figures, page, runner, table, workloads
from harness.workloads import Row, Target

LINES = [  # seconds per call
    {"head": {"machine": "two <cores> & more", "date": "2026-01-02 03:04 UTC", "versions": {"jax": {"jax": "0.0.1"}}}},
    {"row": "tiny", "who": "tpubridge", "samples": [3e-6, 5e-6], "cpu": 1.0, "wall": 2.0},
    {"row": "tiny", "who": "tpubridge", "samples": [4e-6], "cpu": 3.0, "wall": 2.0},
    {"row": "tiny", "who": "jax", "samples": [20e-6, 10e-6, 30e-6], "cpu": 6e-5, "wall": 6e-5, "calls": 3},
    {"row": "tiny", "who": "jax_plugin", "samples": [10e-6], "cpu": 1.0, "wall": 1.0},
    {"row": "gpt", "who": "tpubridge", "samples": [0.9], "cpu": 1.0, "wall": 1.0, "disturbed": "one core"},
    {"row": "gpt", "who": "jax_plugin", "samples": [1.0], "cpu": 1.0, "wall": 1.0},
    {"row": "gpt", "who": "torch", "error": "out of memory\nand more"},
    {"row": "gpt_memory", "who": "tpubridge", "samples": [2 * 2**20]},
]


def canned():
    return {r["name"]: r for r in figures.results(workloads.cpu_rows(), LINES)}


class Figures(unittest.TestCase):
    def test_quantiles_lie_between_samples(self):
        self.assertEqual(figures.quantile([4, 1, 3, 2], 0.5), 2.5)
        self.assertAlmostEqual(figures.quantile([0, 10], 0.1), 1)
        self.assertEqual(figures.quantile([7], 0.9), 7)

    def test_medians_and_spread_are_of_all_turns(self):
        ours = canned()["tiny"]["figures"]["tpubridge"]
        self.assertAlmostEqual(ours["median"], 4e-6)
        self.assertAlmostEqual(ours["p10"], 3.2e-6)
        self.assertAlmostEqual(ours["p90"], 4.8e-6)
        self.assertEqual(ours["samples"], 3)
        self.assertAlmostEqual(ours["cpu_per_wall"], 1.0)

    def test_ratios_and_verdicts(self):
        tiny, gpt, memory = (canned()[n] for n in ("tiny", "gpt", "gpt_memory"))
        self.assertAlmostEqual(tiny["figures"]["jax"]["ratio"], 0.2)
        self.assertEqual(tiny["targets"][0]["against"], "jax_plugin")  # the better of the two
        self.assertAlmostEqual(tiny["targets"][0]["ratio"], 0.4)
        self.assertIs(tiny["targets"][0]["met"], True)
        self.assertAlmostEqual(gpt["targets"][0]["ratio"], 0.9)
        self.assertIs(gpt["targets"][0]["met"], False)
        self.assertIsNone(gpt["targets"][1]["met"])  # libtorch was not measured
        self.assertIsNone(memory["targets"][0]["met"])

    def test_a_limit_is_compared_with_the_median(self):
        row = Row("r", "a row", "µs", targets=(Target(limit=5e-6),))
        for seconds, met in ((4e-6, True), (6e-6, False)):
            found = figures.results([row], [{"row": "r", "who": "tpubridge", "samples": [seconds]}])
            self.assertIs(found[0]["targets"][0]["met"], met)

    def test_what_is_not_calm(self):
        self.assertEqual(figures.disturbed({"free_cores": 1.9, "probed": 2, "cpu": 1, "wall": 1}, False, 2), "")
        self.assertEqual(figures.disturbed({"free_cores": 1.0, "probed": 2, "cpu": 1, "wall": 1}, False, 2), "1.0 cores free")
        self.assertEqual(figures.disturbed({"free_cores": 2.0, "probed": 2, "cpu": 1, "wall": 1}, True, 2), "one core")
        self.assertEqual(figures.disturbed({"free_cores": 1.0, "probed": 1, "cpu": 1, "wall": 1}, True, 1), "")


class Markdown(unittest.TestCase):
    def test_a_row_per_workload(self):
        lines = table.markdown(list(canned().values())).splitlines()
        self.assertEqual(len(lines), 2 + 3)
        self.assertEqual({l.count("|") for l in lines}, {lines[0].count("|")})
        self.assertIn("| 4 |", lines[2])
        self.assertIn("0.40 × jax.jit, same plugin, aim 0.5: met", lines[2])
        self.assertIn("900\\*", lines[3])
        self.assertIn("failed", lines[3])


class Output(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        out = pathlib.Path(self.folder.name)
        (out / "in.jsonl").write_text("\n".join(json.dumps(l) for l in LINES))
        self.table = subprocess.run([sys.executable, str(ROOT / "bench/run"), "--from", str(out / "in.jsonl"), "--out", str(out)],
                                    capture_output=True, text=True, check=True).stdout
        self.results, self.page = json.loads((out / "results.json").read_text()), (out / "index.html").read_text()

    def tearDown(self):
        self.folder.cleanup()

    def line(self, *words):
        return next(l for l in self.table.splitlines() if all(w in l for w in words))

    def test_table(self):
        self.assertIn("4 µs", self.line("tpubridge", "µs"))
        self.assertIn("3.2 … 4.8", self.line("tpubridge", "µs"))
        self.assertIn("ours is 0.20 ×", self.line("jax.jit, own client"))
        self.assertIn("cpu/wall 1.00, cpu 20", self.line("jax.jit, own client"))
        self.assertIn("0.40 ×, met", self.line("at most 0.5 × jax.jit, same plugin"))
        self.assertIn("0.90 ×, MISSED", self.line("at most 0.7 × jax.jit, same plugin"))
        self.assertIn("! one core", self.line("tpubridge", "900 ms"))
        self.assertIn("failed: out of memory", self.line("torch eager"))
        self.assertNotIn("and more", self.line("torch eager"))

    def test_results_hold_what_the_table_shows(self):
        self.assertEqual(self.results["machine"], "two <cores> & more")
        self.assertEqual([r["name"] for r in self.results["rows"]], ["tiny", "gpt", "gpt_memory"])

    def test_page_is_well_formed_and_needs_nothing_else(self):
        root = ElementTree.fromstring(self.page.replace("<!DOCTYPE html>", ""))
        self.assertEqual(len(list(root.iter("svg"))), 3)
        self.assertEqual(len(list(root.iter("rect"))), 6)  # a bar for each figure
        for element in root.iter():
            self.assertNotIn(element.tag, ("script", "link", "img", "iframe"))
            self.assertFalse({"src", "href"} & set(element.attrib))
        self.assertNotIn("url(", self.page)
        self.assertNotIn("@import", self.page)
        self.assertIn("prefers-color-scheme: dark", self.page)
        self.assertIn("two <cores> & more", [e.text for e in root.iter("dd")])

    def test_bars_are_as_long_as_their_figures(self):
        root = ElementTree.fromstring(self.page.replace("<!DOCTYPE html>", ""))
        widths = [float(r.get("width")) for r in next(root.iter("svg")).iter("rect")]  # of 4, 20 and 10 µs
        self.assertAlmostEqual(widths[1] / widths[0], 5, delta=0.05)
        self.assertAlmostEqual(widths[1] / widths[2], 2, delta=0.05)

    def test_an_unknown_row_is_refused(self):
        done = subprocess.run([sys.executable, str(ROOT / "bench/run"), "--only", "nothing"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no row nothing", done.stderr)


# A program that answers as the real ones do: `ready`, then one sample for every request. Its second argument decides.
FAKE = """#!{python}
import sys
print("noise that is no JSON", flush=True)
if sys.argv[2] == "traced":
    print('{{"error": "cannot"}}', flush=True), sys.exit(1)
if "--once" in sys.argv:
    print('{{"done": true}}', flush=True), sys.exit()
if "--compile" in sys.argv:
    print('{{"first": 8.0, "again": 0.5}}', flush=True), sys.exit()
print('{{"ready": true, "facts": {{"peak_bytes": 7}}, "versions": {{"fake": "1"}}}}', flush=True)
for line in sys.stdin:
    word, samples, calls, wait = line.split()
    print('{{"samples": [%s], "cpu": 2, "wall": 1}}' % calls, flush=True)
"""


class Turns(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.folder.name)
        program = root / "bin/tpubridge_workloads"
        program.parent.mkdir()
        program.write_text(FAKE.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.programs = runner.Programs(root, "plugin.so", "", "", "cpu", root / "log")
        self.lines, self.real = [], runner.free_cores
        self.runner = runner.Runner(self.programs, self.lines.append, root / "cache", turns=2, retries=2)
        self.free = []
        runner.free_cores = lambda wanted: self.free.pop(0) if self.free else wanted
        self.slept, runner.time.sleep = runner.time.sleep, lambda seconds: None

    def tearDown(self):
        runner.free_cores, runner.time.sleep = self.real, self.slept
        self.folder.cleanup()

    def test_programs_alternate_and_the_first_one_changes(self):
        self.runner.run([Row("a", "a", "s", "x", who=("tpubridge", "libtorch"), calls=3),
                         Row("fact", "f", "MiB", "x", who=("tpubridge",), kind="fact")])
        self.assertEqual([(l["row"], l["who"]) for l in self.lines],
                         [("fact", "tpubridge"), ("a", "tpubridge"), ("a", "libtorch"), ("a", "libtorch"), ("a", "tpubridge")])
        self.assertEqual(self.lines[0]["samples"], [7])
        self.assertEqual(self.lines[1]["samples"], [3])
        self.assertEqual(self.runner.versions["libtorch"], {"fake": "1"})

    def test_one_that_fails_does_not_stop_the_others(self):
        self.runner.run([Row("a", "a", "s", "x", who=("tpubridge", "traced"))])
        self.assertEqual([l.get("error") for l in self.lines], ["cannot", None, None])

    def test_peers_that_are_not_there_are_left_out(self):
        self.runner.run([Row("a", "a", "s", "x", who=("tpubridge", "jax", "torch"))])
        self.assertEqual({l["who"] for l in self.lines}, {"tpubridge"})

    def test_a_disturbed_turn_is_repeated_then_marked(self):
        n = self.runner.probed
        self.free = [0.4 * n, n, n, n] + [0.4 * n] * 4  # the first turn is calm when repeated, the second never
        self.runner.run([Row("a", "a", "s", "x", who=("tpubridge",))])
        self.assertEqual([bool(l["disturbed"]) for l in self.lines], [False, True])

    def test_starts_and_compiles(self):
        self.runner.run([Row("cold", "", "s", "x", who=("tpubridge",), kind="start", cache="cold"),
                         *(Row(c, "", "s", "x", who=("tpubridge",), kind="compile", cache=c) for c in ("cold", "warm", "memory"))])
        compiles = {l["row"]: l["samples"] for l in self.lines if l["samples"] in ([8.0], [0.5])}
        self.assertEqual(compiles, {"cold": [8.0], "warm": [8.0], "memory": [0.5]})
        self.assertEqual(len(self.lines), 2 + 3)


if __name__ == "__main__":
    unittest.main()

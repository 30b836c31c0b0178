"""Every test that a table of the docs names as a proof exists."""
import pathlib, re, sys, unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("contract.md", "configuration.md")


def tests_of_the_tree():
    found = set()
    for source in (ROOT / "tests").rglob("*.cc"):
        for suite, name in re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", source.read_text(), re.M):
            found.add(f"{suite}.{name}")
    return found


def named(text):
    """Suite.Test, Suite.* and, after a suite in the same row, ….Test."""
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        suite = None
        for s, name in re.findall(r"`([A-Z]\w*|…)\.([A-Z]\w*|\*)`", line):
            suite = suite if s == "…" else s
            yield suite, name


class Contract(unittest.TestCase):
    TESTS = tests_of_the_tree()

    def missing(self, text):
        suites = {t.split(".")[0] for t in self.TESTS}
        return [f"{s}.{n}" for s, n in named(text) if (s not in suites if n == "*" else f"{s}.{n}" not in self.TESTS)]

    def test_a_missing_one_is_found(self):
        text = "| x | `NoSuite.Test`, `Backend.NoTest`, `Backend.SaysWhatItIs`, `….DeviceInfo`, `….Gone`, `NoSuite.*` |"
        self.assertEqual(self.missing(text), ["NoSuite.Test", "Backend.NoTest", "Backend.Gone", "NoSuite.*"])

    def test_every_named_test_exists(self):
        for page in PAGES:
            text = (ROOT / "docs" / page).read_text()
            self.assertGreater(len(list(named(text))), 20, page)
            self.assertEqual(self.missing(text), [], page)

    def test_every_old_bug_has_a_test(self):
        rows = re.findall(r"^\| (B\d+) \| [^|]+ \| ([^|]+) \|$", (ROOT / "docs/contract.md").read_text(), re.M)
        self.assertEqual([b for b, _ in rows], [f"B{i}" for i in range(1, 23)])
        for bug, proof in rows:
            self.assertIn("`", proof, bug)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""Every name in the right column of docs/migration.md exists: in a header, as a command, or as a variable."""
import pathlib, re, sys, unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = {p: p.read_text() for p in sorted((ROOT / "tpubridge").rglob("*.h"))}
COMMANDS = "\n".join(p.read_text() for p in sorted((ROOT / "tools").glob("*.cc")))
VARIABLES = (ROOT / "tpubridge/base/env.cc").read_text()
OF_OTHERS = {"torch", "optional"}  # what libtorch and the standard library have


def code_of(header):
    return re.sub(r"//[^\n]*", "", header)


HEADERS = {p: code_of(text) for p, text in HEADERS.items()}


def word(name, text):
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", text)


def exists(name):
    if name.startswith("tpubridge "):
        return f'add_subcommand("{name.split()[1]}"' in COMMANDS
    if name.startswith("TPUBRIDGE_"):
        return word(name, VARIABLES)
    parts = re.sub(r"\(.*", "", name).split("::")
    if parts[0] in OF_OTHERS:
        return True
    return any(all(word(p, text) for p in parts) for text in HEADERS.values())


def rows(text):
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| there"):
            yield [c.strip() for c in line.strip("|").split(" | ")]


class Migration(unittest.TestCase):
    def test_a_wrong_name_is_found(self):
        for name in ("TPUBackend::fly", "NoSuchClass", "tpubridge fly", "TPUBRIDGE_FLY", "all_reduce_all"):
            self.assertFalse(exists(name), name)

    def test_every_name_exists(self):
        count = 0
        for cells in rows((ROOT / "docs/migration.md").read_text()):
            self.assertEqual(len(cells), 2, cells)
            for name in re.findall(r"`([^`]+)`", cells[1]):
                count += 1
                with self.subTest(name=name):
                    self.assertTrue(exists(name), f"{name} is nowhere in the tree")
        self.assertGreater(count, 80)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""What the oracles share: they make inputs from a seed, run an example program on them, and compare its rows with
what a library says that shares no code with it.

An oracle is a file beside this one, named after the program. It calls `Oracle` and `finish`, and nothing else is
needed: `cargo xtask test --step oracles` runs every file here. By hand:

    python xtask/oracles/pagerank.py target/release/examples
"""

import argparse
import gzip
import random
import subprocess
import sys
import tempfile
from pathlib import Path

# What a run may take, which is far more than any does.
LIMIT_SECONDS = 120
SHOWN = 5


class Oracle:
    """An example program, its inputs, and how its answers have compared so far."""

    def __init__(self, program):
        parser = argparse.ArgumentParser(description=f"Compare `{program}` with an independent library.")
        parser.add_argument("examples", type=Path, help="the folder of the compiled example programs")
        parser.add_argument("--seed", type=int, default=1, help="what inputs are drawn from")
        arguments = parser.parse_args()
        self.program = arguments.examples.resolve() / program
        self.random = random.Random(arguments.seed)
        self.folder = tempfile.TemporaryDirectory(prefix="oracle-")
        self.right, self.wrong, self.runs = 0, 0, 0

    def write(self, name, text):
        """A file of this content; one whose name ends in .gz is compressed."""
        path = Path(self.folder.name) / name
        with gzip.open(path, "wt") if name.endswith(".gz") else open(path, "w") as file:
            file.write(text)
        return path

    def rows(self, *arguments, columns):
        """The rows that the program prints with `--tsv`, their columns made by these functions.

        Every run has another number of cores.
        """
        self.runs += 1
        command = [self.program, "--tsv", "--cores", 1 + self.runs % 3, *arguments]
        command = [str(word) for word in command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        rows = []
        for line in done.stdout.splitlines():
            cells = line.split("\t")
            if len(cells) != len(columns):
                raise RuntimeError(f"{' '.join(command)}: a row of {len(cells)} columns: {line}")
            rows.append(tuple(column(cell) for column, cell in zip(columns, cells)))
        return rows

    def same(self, what, found, expected):
        """Whether these are the same rows, in any order."""
        found, expected = sorted(found), sorted(expected)
        if found == expected:
            self.right += 1
            return
        more = [row for row in found if row not in set(expected)]
        missing = [row for row in expected if row not in set(found)]
        self._differs(
            what,
            f"{len(found)} rows, expected {len(expected)}; too many: {more[:SHOWN]}, missing: {missing[:SHOWN]}",
        )

    def close(self, what, found, expected, relative=1e-9, absolute=0.0):
        """Whether these dictionaries have the same keys, and numbers that differ by so little."""
        if found.keys() != expected.keys():
            apart = sorted(found.keys() ^ expected.keys())
            self._differs(what, f"keys that only one of both has: {apart[:SHOWN]}")
            return
        apart = [
            (key, found[key], expected[key])
            for key in found
            if not abs(found[key] - expected[key]) <= absolute + relative * abs(expected[key])
        ]
        if apart:
            self._differs(what, f"{len(apart)} of {len(found)} numbers differ: {apart[:SHOWN]}")
        else:
            self.right += 1

    def fails(self, what, *arguments, said):
        """Whether the program ends with an error that holds this text."""
        command = [str(word) for word in [self.program, *arguments]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        if done.returncode != 0 and said in done.stderr:
            self.right += 1
        else:
            self._differs(what, f"status {done.returncode}, {done.stderr.strip()!r}")

    def _differs(self, what, how):
        self.wrong += 1
        print(f"{self.program.name}: {what}: {how}", file=sys.stderr)

    def finish(self):
        """Says how many comparisons there were, as a test program does."""
        verdict = "FAILED" if self.wrong else "ok"
        print(f"test result: {verdict}. {self.right} passed; {self.wrong} failed; {self.program.name}, {self.runs} runs")
        sys.exit(1 if self.wrong else 0)


def graphs(oracle, large=True):
    """Graphs of many shapes, each with its name: lists of pairs of nodes, in which a pair may be there again."""
    yield "empty", []
    yield "one node", [(3, 3)]
    yield "two ends of the range", [(2**64 - 1, 0)]
    yield "loops alone", [(n, n) for n in range(5)]
    yield "one edge, often", [(1, 2)] * 7 + [(2, 1)] * 2
    yield "a chain", [(n + 1, n) for n in range(60)]
    yield "a star", [(0, n) for n in range(1, 50)]
    yield "complete", [(a, b) for a in range(12) for b in range(12) if a != b]
    yield "two circles", [(n, (n + 1) % 9) for n in range(9)] + [(100 + n, 100 + (n + 1) % 4) for n in range(4)]
    shapes = [(8, 20), (30, 25), (60, 90), (60, 400), (200, 220)]
    for nodes, edges in shapes:
        # Nodes that lie close together from 0 on, and nodes that may be anything.
        far = [oracle.random.randrange(2**64) for _ in range(nodes)]
        for name, node in [("close", range(nodes)), ("far", far)]:
            pairs = [(oracle.random.choice(node), oracle.random.choice(node)) for _ in range(edges)]
            # Some come again, and some nodes are alone.
            again = oracle.random.sample(pairs, edges // 10)
            alone = [(n, n) for n in (10**6 + oracle.random.randrange(10**6) for _ in range(3))]
            yield f"{nodes} nodes, {edges} edges, {name}", pairs + again + alone
    if large:
        nodes = 3000
        pairs = [(oracle.random.randrange(nodes), oracle.random.randrange(nodes)) for _ in range(9000)]
        yield "large", pairs


def write_graph(oracle, edges):
    """The files of a graph: one, two, or a compressed one, as people write them."""
    gaps = [" ", "\t", "   "]
    lines = []
    for a, b in edges:
        if oracle.random.random() < 0.05:
            lines.append(oracle.random.choice(["", "# a comment", "  "]))
        lines.append(f"{a}{oracle.random.choice(gaps)}{b}" + oracle.random.choice(["", "", " ", " # so"]))
    text = "\n".join(lines) + oracle.random.choice(["", "\n"])
    kind = oracle.random.randrange(3)
    if kind == 0:
        return [oracle.write("edges.gz", text)]
    if kind == 1:
        half = len(lines) // 2
        return [oracle.write(f"edges.{n}", "\n".join(part)) for n, part in enumerate([lines[:half], lines[half:]])]
    return [oracle.write("edges.txt", text)]

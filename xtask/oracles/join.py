"""Joins of two tables, of every kind and in every way, against Polars."""

import polars
from oracle import Oracle

oracle = Oracle("join")

# Keys that mean nothing elsewhere are keys here.
ODD = ["", "NULL", "null", "\\N", "0", "00", " ", "é", "NaN", "x" * 15, "x" * 16, "y" * 200]


def table(keys, name):
    """A table of these keys, each with a field of its own, as a file and as a frame."""
    rows = [(key, f"{name}{number}") for number, key in enumerate(keys)]
    oracle.random.shuffle(rows)
    # On the left side the key comes second.
    lines = [(f"{field}\t{key}" if name == "l" else f"{key}\t{field}") for key, field in rows]
    path = oracle.write(f"{name}.tsv", "".join(line + "\n" for line in lines))
    return path, polars.DataFrame(rows, {"key": polars.String, name: polars.String}, orient="row")


def keys(count, different):
    """So many keys of so many different ones."""
    return [f"k{oracle.random.randrange(different)}" for _ in range(count)]


def skewed(count):
    """Keys of which one has most records."""
    return [f"k{oracle.random.randrange(count) if oracle.random.random() < 0.2 else 0}" for _ in range(count)]


shapes = [
    ("both empty", [], []),
    ("left empty", [], keys(50, 20)),
    ("right empty", keys(50, 20), []),
    ("nothing in common", [f"a{n}" for n in range(40)], [f"b{n}" for n in range(30)]),
    ("one key", ["k"] * 30, ["k"] * 20),
    ("odd keys", [oracle.random.choice(ODD) for _ in range(100)], [oracle.random.choice(ODD) for _ in range(60)]),
    ("duplicates", keys(400, 60), keys(300, 60)),
    ("few duplicates", keys(3000, 5000), keys(4000, 5000)),
    ("right much larger", keys(10, 400), keys(10_000, 400)),
    ("left much larger", keys(10_000, 400), keys(10, 400)),
    ("one hot key", skewed(2000), keys(200, 300) + ["k0"] * 3),
    ("hot on both sides", skewed(300), skewed(200)),
]
for name, left, right in shapes:
    (left_path, left), (right_path, right) = table(left, "l"), table(right, "r")
    for how in ["inner", "left", "right", "full", "semi", "anti"]:
        options = {} if how in ("semi", "anti") else {"coalesce": True}
        expected = left.join(right, on="key", how=how, **options)
        columns = ["key", "l"] if how in ("semi", "anti") else ["key", "l", "r"]
        expected = expected.select(polars.col(columns).fill_null("\\N")).rows()
        for by in ["hash", "sort-merge"]:
            arguments = ["--how", how, "--by", by, "--left-column", 2, left_path, right_path]
            found = oracle.rows(*arguments, columns=[str] * len(columns))
            oracle.same(f"{name}, {how}, {by}", found, expected)
wrong = oracle.write("wrong.tsv", "a\tb\nc\n")
oracle.fails("a short row", wrong, wrong, said="wrong.tsv:2")
oracle.finish()

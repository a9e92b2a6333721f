"""The benchmarks on Polars. Cases: `wordcount`, `keyed-count`, `collisions`, `join`."""

import os
import sys

from protocol import Request, serve

request = Request(sys.argv[1:])
if "cores" in request.options:
    # Read when the library starts its threads, so it must be set before the import.
    os.environ["POLARS_MAX_THREADS"] = request["cores"]

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

import digest  # noqa: E402


def wordcount():
    """Lines by the CSV reader, words by a regular expression, on the streaming engine."""
    path = request["data"]
    line = pl.col("line")
    words = {
        "letters": line.str.to_lowercase().str.extract_all("[a-z]+"),
        "whitespace": line.str.extract_all(r"[^\t\n\x0c\r ]+"),
        "alphanumeric": line.str.extract_all(r"[\p{Alphabetic}\p{N}]+"),
    }[request.options.get("words", "letters")]

    def work():
        lines = pl.scan_csv(
            path,
            has_header=False,
            new_columns=["line"],
            schema={"line": pl.String},
            separator="\x01",
            quote_char=None,
        )
        return (
            lines.select(words.alias("word"))
            .explode("word")
            .drop_nulls()
            .group_by("word")
            .len()
            .collect(engine="streaming")
        )

    serve(
        request,
        work,
        lambda rows: digest.of_words(rows["word"].to_list(), rows["len"].to_numpy()),
        lambda rows: int(rows["len"].sum()),
        os.path.getsize(path),
    )


def keyed_count():
    """Keys in a data frame, on the streaming engine."""
    path = request["data"]
    keys = pl.DataFrame({"key": np.fromfile(path, dtype="<u8")})
    serve(
        request,
        lambda: keys.lazy().group_by("key").len().collect(engine="streaming"),
        lambda rows: digest.of_numbers(rows["key"].to_numpy(), rows["len"].to_numpy()),
        lambda rows: len(keys),
        os.path.getsize(path),
    )


def collisions():
    """Rows by the CSV reader, of the columns that are wanted; the three questions in one go."""
    path = request["data"]
    with open(path, "rb") as file:
        total = sum(1 for _ in file) - 1
    killed, borough = "NUMBER OF PERSONS KILLED", "BOROUGH"
    factors = [f"CONTRIBUTING FACTOR VEHICLE {number}" for number in range(1, 6)]
    header = pl.scan_csv(path, infer_schema=False).collect_schema().names()
    schema = {name: pl.UInt32 if name == killed else pl.String for name in header}

    def work():
        accidents = pl.scan_csv(path, schema=schema).select(
            pl.col("CRASH DATE").str.to_date("%m/%d/%Y").dt.truncate("1w").alias("week"),
            pl.col(borough).alias("borough"),
            (pl.col(killed).fill_null(0) > 0).alias("lethal"),
            # Each factor of an accident once.
            *(
                pl.when(~pl.any_horizontal(pl.col(name).eq(pl.col(other)).fill_null(False) for other in factors[:at]))
                .then(pl.col(name))
                .alias(name)
                if at
                else pl.col(name)
                for at, name in enumerate(factors)
            ),
        )
        counts = [pl.len().alias("accidents"), pl.col("lethal").sum()]
        weeks = accidents.filter("lethal").group_by("week").len()
        by_factor = (
            accidents.unpivot(factors, index="lethal", value_name="factor")
            .drop_nulls("factor")
            .group_by("factor")
            .agg(counts)
            .with_columns((pl.col("lethal") / pl.col("accidents")).alias("share"))
        )
        by_borough = (
            accidents.drop_nulls("borough")
            .group_by("borough", "week")
            .agg(counts)
            .with_columns((pl.col("lethal").sum() / pl.len()).over("borough").alias("mean"))
        )
        return pl.collect_all([weeks, by_factor, by_borough], engine="streaming")

    def rows(answers):
        weeks, by_factor, by_borough = answers
        for week, lethal in weeks.iter_rows():
            yield f"1 {week}", lethal
        for row in by_factor.iter_rows(named=True):
            yield f"2 {row['factor']}", row["accidents"]
            yield f"2 {row['factor']} share", digest.billionths(row["share"])
        for row in by_borough.iter_rows(named=True):
            yield f"3 {row['borough']} {row['week']}", row["accidents"]
            yield f"3 {row['borough']} {row['week']} mean", digest.billionths(row["mean"])

    serve(
        request,
        work,
        lambda answers: digest.of_rows(rows(answers)),
        lambda answers: total,
        os.path.getsize(path),
    )


def join():
    """Two data frames of keys and places, on the streaming engine."""

    def table(path, place):
        keys = np.fromfile(path, dtype="<u8")
        return pl.DataFrame({"key": keys, place: np.arange(len(keys), dtype="u8")})

    left, right = table(request["data"], "left"), table(request["table"], "right")
    serve(
        request,
        lambda: left.lazy()
        .join(right.lazy(), on="key")
        .select(pl.len().alias("count"), (3 * pl.col("left") + pl.col("right")).sum().alias("sum"))
        .collect(engine="streaming"),
        lambda rows: digest.of_numbers(rows["count"].to_numpy(), rows["sum"].to_numpy()),
        lambda rows: len(left) + len(right),
        8 * (len(left) + len(right)),
    )


match request.case:
    case "collisions":
        collisions()
    case "join":
        join()
    case "wordcount":
        wordcount()
    case "keyed-count":
        keyed_count()
    case other:
        raise SystemExit(f"this program has no case {other!r}")

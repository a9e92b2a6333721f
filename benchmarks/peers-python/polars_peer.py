"""The benchmarks on Polars. Cases: `wordcount`, `keyed-count`."""

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
            lines.select(
                pl.col("line").str.to_lowercase().str.extract_all("[a-z]+").alias("word")
            )
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


match request.case:
    case "wordcount":
        wordcount()
    case "keyed-count":
        keyed_count()
    case other:
        raise SystemExit(f"this program has no case {other!r}")

"""The benchmarks on DuckDB. Cases: `wordcount`, `keyed-count`."""

import os
import sys

import duckdb
import numpy as np

import digest
from protocol import Request, serve

request = Request(sys.argv[1:])
database = duckdb.connect()
if "cores" in request.options:
    database.execute(f"SET threads = {int(request['cores'])}")
# The order of rows does not matter here, and keeping it costs.
database.execute("SET preserve_insertion_order = false")


def wordcount():
    """Lines by the CSV reader, words by a regular expression."""
    path = request["data"]
    query = """
        SELECT word, count(*) AS n
        FROM (
            SELECT unnest(regexp_extract_all(lower(line), '[a-z]+')) AS word
            FROM read_csv(?, columns = {'line': 'VARCHAR'}, header = false, delim = '\x01',
                          quote = '', escape = '', auto_detect = false)
        )
        GROUP BY word
    """
    serve(
        request,
        lambda: database.execute(query, [path]).fetchnumpy(),
        lambda rows: digest.of_words(list(rows["word"]), rows["n"]),
        lambda rows: int(rows["n"].sum()),
        os.path.getsize(path),
    )


def keyed_count():
    """Keys in a table of DuckDB's own, in memory."""
    path = request["data"]
    keys = np.fromfile(path, dtype="<u8")
    total = len(keys)
    database.execute("CREATE TABLE keys AS SELECT column0 AS key FROM keys")
    serve(
        request,
        lambda: database.execute("SELECT key, count(*) AS n FROM keys GROUP BY key").fetchnumpy(),
        lambda rows: digest.of_numbers(rows["key"], rows["n"]),
        lambda rows: total,
        os.path.getsize(path),
    )


match request.case:
    case "wordcount":
        wordcount()
    case "keyed-count":
        keyed_count()
    case other:
        raise SystemExit(f"this program has no case {other!r}")

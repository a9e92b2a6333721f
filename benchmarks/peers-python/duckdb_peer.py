"""The benchmarks on DuckDB. Cases: `wordcount`, `keyed-count`, `collisions`, `join`."""

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
    # RE2 has no class for what is alphabetic; the text has no letters beyond ASCII, so that `L` is the same here.
    words = {
        "letters": r"regexp_extract_all(lower(line), '[a-z]+')",
        "whitespace": r"regexp_extract_all(line, '[^\t\n\x0c\r ]+')",
        "alphanumeric": r"regexp_extract_all(line, '[\p{L}\p{N}]+')",
    }[request.options.get("words", "letters")]
    query = f"""
        SELECT word, count(*) AS n
        FROM (
            SELECT unnest({words}) AS word
            FROM read_csv(?, columns = {{'line': 'VARCHAR'}}, header = false, delim = '\x01',
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


def collisions():
    """Rows by the CSV reader, of the columns that are wanted, once; the three questions in one statement."""
    path = request["data"]
    with open(path, "rb") as file:
        total = sum(1 for _ in file) - 1
    killed = "NUMBER OF PERSONS KILLED"
    with open(path) as file:
        header = file.readline().rstrip("\n").split(",")
    columns = ", ".join(
        f"'{name}': '{'UINTEGER' if name == killed else 'VARCHAR'}'" for name in header
    )
    factors = ", ".join(f'"CONTRIBUTING FACTOR VEHICLE {number}"' for number in range(1, 6))
    query = f"""
        WITH accidents AS MATERIALIZED (
            SELECT date_trunc('week', strptime("CRASH DATE", '%m/%d/%Y'))::DATE AS week,
                   "BOROUGH" AS borough,
                   coalesce("{killed}", 0) > 0 AS lethal,
                   list_distinct([{factors}]) AS factors
            FROM read_csv(?, columns = {{{columns}}}, header = true, delim = ',', quote = '"',
                          escape = '"', auto_detect = false)
        ),
        weeks AS (SELECT week, count(*) AS n FROM accidents WHERE lethal GROUP BY week),
        factors AS (
            SELECT factor, count(*) AS n, count(*) FILTER (lethal) AS lethal
            FROM (SELECT unnest(factors) AS factor, lethal FROM accidents)
            GROUP BY factor
        ),
        boroughs AS (
            SELECT borough, week, count(*) AS n, count(*) FILTER (lethal) AS lethal
            FROM accidents WHERE borough IS NOT NULL GROUP BY borough, week
        )
        SELECT 1 AS question, '' AS name, week, n, 0::DOUBLE AS fraction FROM weeks
        UNION ALL SELECT 2, factor, NULL, n, lethal / n FROM factors
        UNION ALL SELECT 3, borough, week, n,
                         sum(lethal) OVER (PARTITION BY borough) / count(*) OVER (PARTITION BY borough)
                  FROM boroughs
    """

    def rows(answer):
        for question, name, week, n, fraction in answer:
            match question:
                case 1:
                    yield f"1 {week}", n
                case 2:
                    yield f"2 {name}", n
                    yield f"2 {name} share", digest.billionths(fraction)
                case _:
                    yield f"3 {name} {week}", n
                    yield f"3 {name} {week} mean", digest.billionths(fraction)

    serve(
        request,
        lambda: database.execute(query, [path]).fetchall(),
        lambda answer: digest.of_rows(rows(answer)),
        lambda answer: total,
        os.path.getsize(path),
    )


def join():
    """Two tables of DuckDB's own, in memory."""
    total = 0
    for table, path in [("lefts", request["data"]), ("rights", request["table"])]:
        keys = np.fromfile(path, dtype="<u8")
        places = np.arange(len(keys), dtype="u8")
        total += len(keys)
        rows = {"key": keys, "place": places}
        database.execute(f"CREATE TABLE {table} AS SELECT key, place FROM rows")
    query = """
        SELECT count(*) AS count, sum(3 * l.place + r.place)::UBIGINT AS sum
        FROM lefts l JOIN rights r ON l.key = r.key
    """
    serve(
        request,
        lambda: database.execute(query).fetchnumpy(),
        lambda row: digest.of_numbers(row["count"], row["sum"]),
        lambda row: total,
        8 * total,
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

"""The three questions to collisions, against Polars."""

import datetime

import polars
from oracle import Oracle

FACTORS = [f"CONTRIBUTING FACTOR VEHICLE {number}" for number in range(1, 6)]
WANTED = ["CRASH DATE", "BOROUGH", "NUMBER OF PERSONS KILLED", *FACTORS]
OTHERS = ["CRASH TIME", "LOCATION", "NUMBER OF PERSONS INJURED", "COLLISION_ID"]
NAMES = ["Unspecified", "Glare", "Obstructed, Limited", 'Said "nothing"', "Größe", "a" * 70, "x" * 15, "x" * 16]
BOROUGHS = ["", "BRONX", "STATEN ISLAND", "QUEENS", "Two, words"]

oracle = Oracle("collisions")


def field(text, always):
    """A field of CSV, within quotes where it needs them, or always."""
    if always or any(char in text for char in ',"'):
        return '"' + text.replace('"', '""') + '"'
    return text


def accident(number, days):
    """The fields of an accident by their columns, with all that may be missing."""
    choice, chance = oracle.random.choice, oracle.random.random
    day = datetime.date(2011, 12, 20) + datetime.timedelta(oracle.random.randrange(days))
    row = {
        "CRASH DATE": day.strftime("%m/%d/%Y"),
        "BOROUGH": choice(BOROUGHS),
        "NUMBER OF PERSONS KILLED": choice(["", "1", "3", "10"]) if chance() < 0.1 else "0",
        "CRASH TIME": "0:15",
        "LOCATION": choice(["", "(40.1, -73.2)"]),
        "NUMBER OF PERSONS INJURED": choice(["0", "2", ""]),
        "COLLISION_ID": str(number),
    }
    return row | {factor: choice(NAMES) if chance() < 0.5 else "" for factor in FACTORS}


def write(rows, name):
    """A file whose columns are in any order, and whose lines end in one way or the other."""
    columns = oracle.random.sample(WANTED + OTHERS, len(WANTED + OTHERS))
    end = oracle.random.choice(["\n", "\r\n"])
    always = oracle.random.random() < 0.3
    lines = [",".join(columns)]
    lines += [",".join(field(row[column], always) for column in columns) for row in rows]
    return oracle.write(name, end.join(lines) + oracle.random.choice(["", end]))


def questions(path):
    """The answers of the program: three lists of rows."""
    answers = [("1", (str, int)), ("2", (str, int, float)), ("3", (str, str, int, float))]
    return [oracle.rows("--question", number, path, columns=columns) for number, columns in answers]


for count, days, name in [
    (0, 1, "none.csv"),
    (1, 1, "one.csv"),
    (30, 9, "few.csv"),
    (500, 40, "weeks.csv.gz"),
    (4000, 4000, "years.csv"),
    (20_000, 700, "many.csv"),
]:
    rows = [accident(number, days) for number in range(count)]
    schema = {column: polars.String for column in WANTED}
    frame = polars.DataFrame([[row[column] for column in WANTED] for row in rows], schema, orient="row")
    accidents = frame.with_columns(
        week=polars.col("CRASH DATE").str.to_date("%m/%d/%Y").dt.truncate("1w").cast(polars.String),
        lethal=polars.col("NUMBER OF PERSONS KILLED").replace("", "0").cast(polars.UInt32) > 0,
    )
    tally = [polars.len().alias("accidents"), polars.col("lethal").sum()]
    weeks = accidents.filter("lethal").group_by("week").len()
    factors = (
        accidents.select("lethal", factor=polars.concat_list(FACTORS).list.unique())
        .explode("factor")
        .filter(polars.col("factor") != "")
        .group_by("factor")
        .agg(tally)
        .select("factor", "accidents", polars.col("lethal") / polars.col("accidents"))
    )
    boroughs = (
        accidents.filter(polars.col("BOROUGH") != "")
        .group_by("BOROUGH", "week")
        .agg(tally)
        .select("BOROUGH", "week", "accidents", (polars.col("lethal").sum() / polars.len()).over("BOROUGH"))
    )
    found = questions(write(rows, name))
    for number, (answer, expected) in enumerate(zip(found, [weeks, factors, boroughs]), 1):
        oracle.same(f"{count} accidents, question {number}", answer, expected.rows())

header = ",".join(WANTED)
broken = [
    (f"{header}\n2012-07-01,,0,,,,,\n", ":2"),
    (f"{header}\n07/01/2012,,0,,,,,\n07/01/2012,,some,,,,,\n", ":3"),
    (f"{header}\n07/01/2012,,0\n", "3 fields, not 8"),
    (f'{header}\n07/01/2012,"BRONX,0,,,,,\n', "a quote is not closed"),
    ("CRASH DATE,BOROUGH\n", "no column for `NUMBER OF PERSONS KILLED`; the columns are"),
]
for at, (text, said) in enumerate(broken):
    oracle.fails(f"broken file {at}", oracle.write(f"broken{at}.csv", text), said=said)
oracle.finish()

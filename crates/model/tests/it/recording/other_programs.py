"""Reads the recording DIR with DuckDB and pandas and compares every cell with what was written.

usage: other_programs.py DIR EXPECTED.json REFERENCE.md
"""
import json
import math
import re
import sys

import duckdb
import pandas

directory, expected, reference = sys.argv[1:]
with open(expected) as file:
    tables = json.load(file)


def check(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: found {found!r}, and {wanted!r} was written")


def plain(value):
    """A cell as pandas has it, as JSON has it."""
    if value is None or value is pandas.NA or isinstance(value, float) and math.isnan(value):
        return None
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


for name, table in tables.items():
    files = f"{directory}/{name}/*.parquet"
    types = duckdb.sql(f"DESCRIBE SELECT * FROM '{files}'").fetchall()
    check(f"types of {name}", [[row[0], row[1]] for row in types], table["columns"])
    rows = duckdb.sql(f"SELECT * FROM '{files}'").fetchall()
    check(f"number of rows in {name}", len(rows), len(table["rows"]))
    for number, (found, wanted) in enumerate(zip(rows, table["rows"])):
        check(f"row {number} of {name} in DuckDB", list(found), wanted)

    frame = pandas.read_parquet(f"{directory}/{name}")
    check(f"columns of {name}", list(frame.columns), [column for column, _ in table["columns"]])
    for column, values in zip(frame.columns, zip(*table["rows"])):
        for number, (found, wanted) in enumerate(zip(frame[column], values)):
            check(f"{column} of row {number} of {name} in pandas", plain(found), wanted)

    # What a reader may pass over by the statistics must not be missed.
    for place, (column, kind) in enumerate(table["columns"]):
        values = [row[place] for row in table["rows"] if row[place] is not None]
        if kind not in ("BIGINT", "VARCHAR"):
            continue
        some = sorted(set(values))[:: max(1, len(set(values)) // 5)]
        for value, sign in [(value, sign) for value in some for sign in ("=", ">")]:
            query = f"SELECT count(*) FROM '{files}' WHERE \"{column}\" {sign} $1"
            wanted = sum(v == value if sign == "=" else v > value for v in values)
            found = duckdb.execute(query, [value]).fetchall()[0][0]
            check(f"rows of {name} with {column} {sign} {value!r}", found, wanted)
        query = f"SELECT count(*) FROM '{files}' WHERE \"{column}\" IS NULL"
        found = duckdb.execute(query).fetchall()[0][0]
        check(f"rows of {name} without {column}", found, len(table["rows"]) - len(values))

# Requests find their parts.
position = {name: [column for column, _ in table["columns"]].index for name, table in tables.items()}
ids = {row[position["requests"]("request_id")] for row in tables["requests"]["rows"]}
id_of, bytes_of = position["request_parts"]("request_id"), position["request_parts"]("bytes")
wanted = [row[bytes_of] for row in tables["request_parts"]["rows"] if row[id_of] in ids]
found = duckdb.sql(
    f"SELECT count(*), sum(part.bytes) FROM '{directory}/requests/*.parquet' "
    f"JOIN '{directory}/request_parts/*.parquet' AS part USING (request_id)"
).fetchall()[0]
check("requests with their parts", (found[0], int(found[1])), (len(wanted), sum(wanted)))

# The page's own examples work, and each segment explains itself.
with open(reference) as file:
    examples = re.findall(r"```sql\n(.*?)```", file.read(), re.DOTALL)
check("examples on the page", bool(examples), True)
for query in ";".join(examples).split(";"):
    if query.strip():
        duckdb.sql(query.replace("DIR", directory)).fetchall()
query = f"SELECT key, value FROM parquet_kv_metadata('{directory}/requests/*.parquet')"
sentences = dict(duckdb.sql(query).fetchall())
check("sentence of d2c_ns", sentences[b"d2c_ns"].startswith(b"[ns] From the last issue"), True)

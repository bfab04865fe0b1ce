#!/usr/bin/env python3
"""p3-places.py REQUESTS.csv: which blocks of the device a file system writes, and for what.

Reads what `fathom report RESULTS.db --requests` prints, and prints CSV, a line for each cell, cause
and run, of the writes within the phases:

  writes, kib     how many, and their bytes
  places_kib      blocks of 4 KiB that they went to, each counted once
  again           part of the bytes that went to a block which this run had written before, the
                  preparation included: a line that stays where it is
  rising          part of the bytes of writes that begin at or behind the end of all that was written
                  before for the same cause within the phases: a line that rises
  partial         part of the writes that are not of whole blocks of 4 KiB: a drive that keeps such
                  blocks has to read them first
  all             1, for a quotient of the columns before it

What is written in place is written again and again (again near 1); what is written to new space
rises and comes to no block twice; a log in a circle does both.
"""
import csv
import sys

BLOCK = 4096


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    written: dict[tuple[str, str], set[int]] = {}
    found: dict[tuple[str, str, str], dict] = {}
    with open(sys.argv[1], newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["op"] == "write"]
    # By the time of issue, for the device writes in that order.
    rows.sort(key=lambda row: (row["label"], int(row["run"]), int(row["issue_ns"])))
    for row in rows:
        run = (row["label"], row["run"], row["device"])
        before = written.setdefault(run, set())
        begin, size = int(row["offset"]), int(row["bytes"])
        blocks = range(begin // BLOCK, (begin + size + BLOCK - 1) // BLOCK)
        again = sum(1 for block in blocks if block in before)
        before.update(blocks)
        if not row["phase"]:
            continue
        key = (row["label"], row["cause"], row["run"])
        sums = found.setdefault(
            key, {"writes": 0, "bytes": 0, "places": set(), "again": 0, "rising": 0, "partial": 0, "end": {}}
        )
        sums["writes"] += 1
        sums["bytes"] += size
        sums["places"].update((row["device"], block) for block in blocks)
        sums["again"] += size * again / max(len(blocks), 1)
        sums["partial"] += begin % BLOCK != 0 or size % BLOCK != 0
        end = sums["end"].get(row["device"], 0)
        if begin >= end:
            sums["rising"] += size
        sums["end"][row["device"]] = max(end, begin + size)
    print("label,cause,run,writes,kib,places_kib,again,rising,partial,all")
    for (label, cause, run), sums in sorted(found.items()):
        whole = max(sums["bytes"], 1)
        print(
            f"{label},{cause},{run},{sums['writes']},{sums['bytes'] / 1024:.0f},"
            f"{len(sums['places']) * BLOCK / 1024:.0f},{sums['again'] / whole:.4f},{sums['rising'] / whole:.4f},"
            f"{sums['partial'] / sums['writes']:.4f},1"
        )


main()

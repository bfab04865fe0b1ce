#!/usr/bin/env python3
"""P2's own statistic of the SELECTs that were measured: of all executions of a query the highest
and the lowest are dropped, and the rest are averaged. A run has two executions of each, which are
its smallest and its largest time, so that results without single executions are enough.

    zstd -d docs/results/p2-phone.db.zst docs/results/p2-3711-select.db.zst
    p2-trimmed.py docs/results/p2-phone.db docs/results/p2-3711-select.db > p2-trimmed.csv
"""

import json
import pathlib
import sqlite3
import sys

TIMES = """SELECT phase.count, phase_model.min_ns, phase_model.max_ns
FROM run JOIN phase ON phase.run = run.id JOIN phase_model ON phase_model.run = run.id
  AND phase_model.phase = phase.phase AND phase_model.x IS phase.x
WHERE run.cell = ? AND run.status = 'done' AND phase.phase = ? AND phase.x IS ?"""

# What is compared, of what, and with what: a phase and its number of columns.
COMPARED = [
    ("descending against ascending", ("select-desc", None), ("select-asc", None)),
    ("12 columns against 1", ("select-columns", 12.0), ("select-columns", 1.0)),
]


def executions(results, cell, phase, columns):
    """Model times of all executions of a query, ascending."""
    times = []
    for count, least, most in results.execute(TIMES, (cell, phase, columns)):
        if count != 2:
            sys.exit(f"{phase}: {count} executions in a run, whose times are not told")
        times += [least, most]
    return sorted(times)


def mean(times):
    return sum(times) / len(times)


print("data,library,compared,executions,kept,mean_of_all_x,mean_of_kept_x")
for path in map(pathlib.Path, sys.argv[1:]):
    results = sqlite3.connect(path)
    for cell, axes in results.execute("SELECT id, axes FROM cell ORDER BY id").fetchall():
        axes = {key.rsplit(".", 1)[-1]: value for key, value in json.loads(axes).items()}
        if axes.get("variants", "select") != "select":
            continue
        library = axes["library"].removeprefix("./")
        for words, of, over in COMPARED:
            of, over = executions(results, cell, *of), executions(results, cell, *over)
            whole, kept = mean(of) / mean(over), mean(of[1:-1]) / mean(over[1:-1])
            ends = f"{len(of)},{len(of) - 2},{whole:.2f},{kept:.2f}"
            print(f"{path.stem},{library},{words},{ends}")

#!/usr/bin/env python3
"""What a card's flush decides: ratios that were measured on the model of an SD card, as they are, and
with the time taken out that the model asks for its flushes (`base_us` of each, and `per_dirty_kib_us`
of what was written). Linux sends an SD card none, unless the card has a cache that the host controls
(docs/modelled-devices.md). Nothing is measured anew: who waits for a flush waits for all of it. The
line `check` says how far off such a sum is where other flush times were measured (p4-flush), percent.

    without-flushes.py > docs/results/without-flushes.csv    from the repository's root; needs zstd

One line for each ratio, of what `changed`: `out` of its band without flushes, `in` to it, or not;
`middle` is 1 where the ratio itself is in the band without them, and not its interval alone, and
`half` likewise with half of the flush time.
"""

import functools
import json
import math
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import tomllib

PAPERS = pathlib.Path("docs/papers")
PRESETS = pathlib.Path("crates/fathom-device/src/presets")
# Student's t, 95 % on both sides, by the number of blocks.
STUDENT = {3: 4.302653, 4: 3.182446, 5: 2.776445, 6: 2.570582, 7: 2.446912}
PHASES = """SELECT run.cell, run.block, phase_model.phase, phase_model.x, phase.count, phase_model.cpu_ns,
  phase_model.device_ns, phase_model.other_ns, phase_model.flushes, phase_model.written_bytes
FROM run JOIN phase_model ON phase_model.run = run.id JOIN phase ON phase.run = run.id
  AND phase.phase = phase_model.phase AND phase.x IS phase_model.x
WHERE run.status = 'done'"""


class Data:
    """Published runs: cells by their axes, and of each phase its sums, block by block."""

    def __init__(self, name):
        with tempfile.NamedTemporaryFile(suffix=".db") as file:
            subprocess.run(["zstd", "-qdc", f"docs/results/{name}.db.zst"], check=True, stdout=file)
            results = sqlite3.connect(file.name)
            cells = results.execute("SELECT id, axes, spec FROM cell WHERE skipped IS NULL").fetchall()
            rows = results.execute(PHASES).fetchall()
        self.axes = {cell: json.loads(axes) for cell, axes, _ in cells}
        self.stacks = {cell: json.loads(spec)["stack"] for cell, _, spec in cells}
        self.phases = {}
        for cell, block, phase, x, *sums in rows:
            self.phases.setdefault((cell, phase, x), {})[block] = sums

    def axis(self, cell, name):
        named = (value for key, value in self.axes[cell].items() if name in (key, key.rsplit(".", 1)[-1]))
        return next((str(value) for value in named), None)

    def cells(self, chosen):
        return [cell for cell in self.axes if all(self.axis(cell, name) == value for name, value in chosen)]

    def cell(self, chosen):
        cells = self.cells(chosen)
        if len(cells) != 1:
            sys.exit(f"{chosen}: {len(cells)} cells")
        return cells[0]

    def card(self, cell):
        """The model of a cell on an SD card; none of another device, or with a log on another."""
        stack = self.stacks[cell]
        path = stack.get("device")
        if not path or stack.get("log_device"):
            return None
        file = PAPERS / "experiments" / path if path.startswith("./") else PRESETS / f"{path}.toml"
        model = tomllib.loads(file.read_text())
        return model if model.get("kind") == "sd" else None


data = functools.cache(Data)


def choice(text):
    return [tuple(part.strip().split(":", 1)) for part in (text or "").split(",") if part.strip()]


def time(sums, model, show, part):
    """Of one execution, ns, with this part of the model's flush time."""
    count, cpu, device, other, flushes, written = sums
    flush = model["flush"]
    waited = 1000 * (flushes * flush["base_us"] + written / 1024 * flush.get("per_dirty_kib_us", 0))
    device = max(device - (1 - part) * waited, 0)
    return (device if show == "device" else cpu + device + other) / count


def paired(pairs):
    """The geometric mean of quotients, and its interval."""
    logs = [math.log(of / over) for of, over in pairs]
    mean = sum(logs) / len(logs)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1))
    half = STUDENT[len(logs)] * deviation / math.sqrt(len(logs))
    return [math.exp(value) for value in (mean, mean - half, mean + half)]


def is_within(low, high, band):
    least, most = band
    return (least < low if least == 1 else least <= low) and (high < most if most == 1 else high <= most)


def places(finding, results):
    at = choice(finding.get("where"))
    if "each" not in finding:
        return [at]
    cells = results.cells(at + choice(finding.get("of")))
    values = dict.fromkeys(results.axis(cell, finding["each"]) for cell in cells)
    return [at + [(finding["each"], value)] for value in values]


def blocks_of(finding, results, cell, phase, x):
    """Block by block the sums of every abscissa that is compared."""
    every = [key[2] for key in results.phases if key[:2] == (cell, phase)]
    phases = [results.phases.get((cell, phase, at), {}) for at in (every if finding.get("every_x") else [x])]
    return {block: [phase[block] for phase in phases] for block in set.intersection(*map(set, phases))}


def ratios(finding):
    """Device and library, and a function from the part of the flush time to the ratio; of cards alone."""
    results, show = data(finding["data"]), finding.get("show", "faster")
    x = float(finding["x"]) if "x" in finding else None
    over_x = float(finding["over_x"]) if "over_x" in finding else x
    for place in places(finding, results):
        cells = [results.cell(place + choice(finding.get(side))) for side in ("of", "over")]
        cards = [results.card(cell) for cell in cells]
        if None in cards:
            continue
        phase = finding["phase"]
        of = blocks_of(finding, results, cells[0], phase, x)
        over = blocks_of(finding, results, cells[1], finding.get("over_phase", phase), over_x)
        blocks = sorted(set(of) & set(over))

        def ratio(part):
            times = [
                [sum(time(sums, card, show, part) for sums in side[block]) for block in blocks]
                for side, card in zip((of, over), cards)
            ]
            return paired(list(zip(*(times[::-1] if show == "faster" else times))))

        library = results.axis(cells[0], "library") or "" if "each" in finding else ""
        yield results.stacks[cells[0]]["device"], library.removeprefix("./"), ratio


def check():
    """How far off such a sum is where another flush time was measured, percent, at the most."""
    results, furthest = data("p4-flush"), 0.0
    for mode in ("delete", "wal"):
        here = results.cell([("journal_mode", mode), ("device", "sd-sandisk-8")])
        for name, part in (("quarter", 0.25), ("half", 0.5), ("double", 2.0), ("fourfold", 4.0)):
            device = f"./sd-sandisk-8-flush-{name}.toml"
            there = results.cell([("journal_mode", mode), ("device", device)])
            runs = [results.phases[cell, "insert", None] for cell in (here, there)]
            summed = [time(runs[0][block], results.card(here), "slower", part) for block in sorted(runs[0])]
            measured = [time(runs[1][block], results.card(there), "slower", 1) for block in sorted(runs[1])]
            furthest = max(furthest, 100 * abs(paired(list(zip(summed, measured)))[0] - 1))
    return furthest


def lines():
    for file in sorted(PAPERS.glob("p[0-9]*.toml")):
        for finding in tomllib.loads(file.read_text()).get("finding", []):
            is_time = finding.get("show", "faster") in ("faster", "slower", "device")
            if "data" not in finding or "holds" not in finding or not is_time or "slowed" in finding:
                continue
            band = finding["holds"]
            for device, library, ratio in ratios(finding):
                modelled, without, half = ratio(1.0), ratio(0.0), ratio(0.5)
                was, now = (is_within(*value[1:], band) for value in (modelled, without))
                changed = "no" if was == now else "in" if now else "out"
                middle, half = (int(is_within(value[0], value[0], band)) for value in (without, half))
                # Commas part columns.
                words = re.sub(r"(\d),(\d)", r"\1\2", finding["finding"]).replace(", ", "; ")
                edges = " to ".join(f"{edge:g}" for edge in band)
                numbers = [f"{value:.2f}" for value in modelled + without]
                yield [finding["table"], words, device, library, changed, edges, *numbers, middle, half]


print("table,finding,device,library,changed,band,modelled,modelled_low,modelled_high,without,without_low,without_high,middle,half")
for line in lines():
    print(*line, sep=",")
print("check", "p4-flush", "sd-sandisk-8", "", "no", "", f"{check():.1f}", *[0] * 7, sep=",")

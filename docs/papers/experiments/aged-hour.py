#!/usr/bin/env python3
"""aged-hour.py RESULTS.db… DIR: single commits of recorded runs on modelled devices, by the device alone.

The recordings (`[instruments] operations = true`) are those of aged-hour.toml; what their bytes are
is said at the head of crates/fathom-lab/src/recording/codec.rs, and when an operation is done at that
of crates/fathom-device/src/timeline.rs, which this repeats for models whose times are not drawn.

A commit is replayed as `fathom simulate` replays a call: operations that were under way together
are so again, one that came when all before it were answered waits for them, and the commit ends when
what was answered within it is. What it computed is left out, on this machine's kernel as in a guest,
whose threads are not seen. Operations that no commit waited for are served where they came. Reads are
left out: others who used this machine emptied its caches now and then, so that pages of the database
were read again, which no phone's commit does; rows "with reads" have them.

Into DIR: aged-hour.csv, each run; aged-hour-summary.csv, geometric means over the runs with Student's
t interval on the logarithms; aged-hour-ratios.csv, aged against fresh by block; and
aged-hour-slowest.csv, what the slowest thousandth of the commits of all runs did beside the others;
aged-hour.svg, the picture.
"""
import collections
import csv
import json
import math
import os
import sqlite3
import struct
import sys
import tomllib

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../crates/fathom-device/src/presets")
DEVICES = ["sd-sandisk-8", "emmc-51"]
READ, WRITE, FLUSH, DISCARD = range(4)
# As crates/fathom-lab/src/simulate/program.rs has it: who waits for an answer asks no sooner.
ON_ITS_WAY_NS = 10_000
# Student's t, 97.5 %, by degrees of freedom.
T975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def changed(self, before):
        coded = self.number()
        return (before + ((coded >> 1) ^ -(coded & 1))) % (1 << 64)

    def span(self):
        start = self.number()
        return start, self.changed(start)

    def skip(self, count):
        self.at += count


def decoded(data):
    """Executions (begin, end) and the first device's operations (arrival, answer, kind, offset, bytes)."""
    source = Bytes(data)
    assert source.byte() == 1, "a recording of another format"
    for _ in range(source.number()):
        source.skip(source.number())
        if source.byte():
            source.skip(8)
        source.span(), source.number(), source.number()
        for _ in range(source.number()):
            source.number()
            for _ in range(source.number()):
                source.number()
            source.span()
        for _ in range(source.number()):
            source.span()
    executions, start = [], 0
    for _ in range(source.number()):
        source.number(), source.number()
        start = source.changed(start)
        executions.append((start, start + source.number()))
    for _ in range(source.number()):
        source.number()
        for _ in range(source.number()):
            source.number(), source.number(), source.number(), source.number()
    operations = []
    devices = source.number()
    for device in range(devices):
        end = arrival = 0
        for _ in range(source.number()):
            kind, size = source.byte(), source.number()
            offset = source.changed(end)
            arrival = source.changed(arrival)
            asked, given = source.changed(arrival), source.changed(arrival)
            early = source.number()
            end = offset + size
            if device == 0:
                operations.append((arrival, max(asked, given) - early, kind, offset, size))
    return sorted(executions), sorted(operations)


class Device:
    def __init__(self, name):
        with open(os.path.join(MODELS, name + ".toml"), "rb") as file:
            model = tomllib.load(file)
        side = lambda words: (
            words["random_us"] * 1e3,
            words.get("sequential_us", words["random_us"]) * 1e3,
            1e3 / words["mb_per_s"],
        )
        self.sides = {READ: side(model["read"]), WRITE: side(model["write"])}
        self.base = model["flush"]["base_us"] * 1e3
        self.per_kib = model["flush"].get("per_dirty_kib_us", 0) * 1e3
        cache = model.get("cache")
        self.cache = cache and (cache["kib"] * 1024, cache["write_us"] * 1e3, cache["drain_mb_per_s"] / 1e3)
        self.streams = model.get("streams", 1)
        self.ends = {READ: [], WRITE: []}
        self.free = [0.0] * model.get("channels", 1)
        self.transferred = {READ: 0.0, WRITE: 0.0}
        self.dirty = self.empty = 0.0

    def follows(self, kind, offset, size):
        ends = self.ends[kind]
        known = offset in ends
        if known:
            ends.remove(offset)
        else:
            del ends[max(self.streams - 1, 0) :]
        ends.insert(0, offset + size)
        return known

    def submit(self, now, kind, offset, size):
        if kind == DISCARD:
            return now
        if kind == FLUSH:
            start = max([now, *self.free])
            dirty = max(self.empty - start, 0.0) * self.cache[2] if self.cache else self.dirty
            end = start + self.base + dirty / 1024 * self.per_kib
            self.free = [end] * len(self.free)
            self.dirty, self.empty = 0.0, end
            return end
        random, sequential, per_byte = self.sides[kind]
        latency = sequential if self.follows(kind, offset, size) else random
        transfer = max(size - 4096, 0) * per_byte
        channel = self.free.index(min(self.free))
        start = max(now, self.free[channel])
        if kind == WRITE and self.cache:
            capacity, write, rate = self.cache
            self.empty = max(self.empty, start) + size / rate
            end = max(start, self.empty - capacity / rate) + write
        else:
            if kind == WRITE:
                self.dirty += size
            end = start + latency
            if transfer:
                self.transferred[kind] = max(self.transferred[kind], start) + transfer
                end = max(end + transfer, self.transferred[kind])
        self.free[channel] = end
        return end


def grouped(executions, operations):
    """For each execution what came before it and within it: (operation, whether it is waited for)."""
    groups, at = [], 0
    for start, end in executions:
        before, within = [], []
        while at < len(operations) and operations[at][0] <= end:
            operation = operations[at]
            if operation[0] < start:
                before.append(operation)
            else:
                within.append((operation, operation[1] <= end))
            at += 1
        # What was under way before the first is of the preparation.
        groups.append((before if groups else [], within))
    return groups


def replayed(groups, device):
    """How long each execution takes, ns."""
    now, times = 0.0, []
    for before, within in groups:
        for _, _, kind, offset, size in before:
            device.submit(now, kind, offset, size)
        start = now
        answered, burst, done = 0, now, now
        for (arrival, answer, kind, offset, size), is_waited in within:
            if arrival >= answered + ON_ITS_WAY_NS:
                burst = done
            answered = max(answered, answer)
            end = device.submit(burst, kind, offset, size)
            if is_waited:
                done = max(done, end)
        now = done
        times.append(now - start)
    return times


def rank(ordered, share):
    return ordered[min(len(ordered), max(1, math.ceil(len(ordered) * share))) - 1]


def mean(values):
    """Geometric mean with its 95 % interval."""
    logs = [math.log(value) for value in values]
    middle = sum(logs) / len(logs)
    if len(logs) < 2:
        return math.exp(middle), 0.0, math.inf
    spread = math.sqrt(sum((log - middle) ** 2 for log in logs) / (len(logs) - 1) / len(logs))
    half = T975[len(logs) - 1] * spread
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


USUAL_FLUSHES = {("ext4", "delete"): 4, ("ext4", "wal"): 1, ("f2fs", "delete"): 5, ("f2fs", "wal"): 1}

# Of a file system of 512 MiB that mkfs.f2fs 1.15 made, from its superblock: first block of each area.
F2FS_AREAS = [(4096, "data and nodes"), (3584, "SSA"), (2560, "NAT"), (1536, "SIT"), (512, "checkpoint"), (0, "superblock")]


def features(filesystem, mode, before, within):
    found = set()
    for (_, _, kind, offset, size), is_waited in within:
        if kind == READ:
            found.add("reads")
        if kind == WRITE and not is_waited:
            found.add("writes that it does not wait for")
        if kind == WRITE and filesystem == "f2fs":
            area = next(name for first, name in F2FS_AREAS if offset // 4096 >= first)
            if area != "data and nodes":
                found.add("writes " + area)
        if kind == WRITE and filesystem == "ext4" and offset < 1 << 20:
            found.add("writes superblock or group descriptors")
    flushes = sum(1 for operation, _ in within if operation[2] == FLUSH)
    if flushes > USUAL_FLUSHES[filesystem, mode]:
        found.add("more flushes than usual")
    if any(operation[2] == WRITE for operation in before):
        found.add("comes after writes of nobody's")
    return found


COLOURS = {"median": "#0b5a9c", "p99": "#12a07a", "p99.9": "#c27c0e", "longest": "#8a1f5c"}


def picture(device, rows):
    """Median to longest of each row (a label and its times in ns), on a logarithmic axis, as SVG."""
    left, right, width, step = 150, 80, 720, 26
    low = min(values[0] for _, values in rows) / 1.3
    high = max(values[-1] for _, values in rows) * 1.1
    place = lambda ns: left + math.log(ns / low) / math.log(high / low) * (width - left - right)
    text = lambda x, y, words, anchor="start", size=12, fill="#1b1f24", more="": (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}"{more}>{words}</text>'
    )
    title = "Single commits on fresh and on aged file systems"
    about = f"{device}, time at the device, logarithmic; replayed in virtual time"
    height = 92 + step * len(rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" role="img"><title>{title}</title><desc>{about}</desc>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        text(0, 20, title, size=16, more=' font-weight="bold"'),
        text(0, 38, about, size=11, fill="#59616b"),
    ]
    for number, (name, colour) in enumerate(COLOURS.items()):
        x = left + 90 * number
        out.append(f'<circle cx="{x}" cy="54" r="4.5" fill="{colour}"/>' + text(x + 9, 58, name, size=11))
    for power in range(6, 11):
        if low < 10**power < high:
            x, tick = place(10**power), f"{10**power / 1e6:.0f} ms" if power < 9 else f"{10**power / 1e9:.0f} s"
            out.append(f'<line x1="{x:.1f}" y1="70" x2="{x:.1f}" y2="{height - 16}" stroke="#dcdfe3"/>')
            out.append(text(x, height - 3, tick, "middle", 11, "#59616b"))
    for number, (label, values) in enumerate(rows):
        y = 84 + step * number
        out.append(text(left - 12, y + 4, label, "end"))
        out.append(f'<line x1="{left}" y1="{y}" x2="{width - right}" y2="{y}" stroke="#dcdfe3"/>')
        for value, colour in zip(values, COLOURS.values()):
            out.append(f'<circle cx="{place(value):.1f}" cy="{y}" r="4.5" fill="{colour}"/>')
        longest = f"{values[-1] / 1e9:.2f} s" if values[-1] >= 1e9 else f"{values[-1] / 1e6:.0f} ms"
        out.append(text(width - right + 12, y + 4, longest, size=11, fill="#59616b"))
    return "\n".join([*out, "</svg>\n"])


def main():
    *files, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    runs = collections.defaultdict(dict)
    whats = collections.defaultdict(list)
    for path in files:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        rows = database.execute(
            "SELECT c.axes, r.block, d.data FROM run r JOIN cell c ON c.id = r.cell JOIN recording d ON d.run = r.id"
            " WHERE r.status = 'done' ORDER BY c.id, r.block"
        )
        for axes, block, data in rows:
            axes = json.loads(axes)
            mode = next(value for key, value in axes.items() if key.endswith("journal_mode"))
            filesystem, age = axes["variants"].replace("-", " ").split()
            executions, operations = decoded(data)
            groups = grouped(executions, operations)
            unread = [operation for operation in operations if operation[2] != READ]
            for name in DEVICES:
                if len(unread) < len(operations) and name == DEVICES[0]:
                    times = replayed(groups, Device(name))
                    runs[mode, filesystem + " with reads", age, name][block] = times
                times = replayed(grouped(executions, unread), Device(name))
                runs[mode, filesystem, age, name][block] = times
                if name == DEVICES[0]:
                    kinds = lambda within, kind: sum(1 for operation, _ in within if operation[2] == kind)
                    for (before, within), time in zip(groups, times):
                        counts = tuple(kinds(within, kind) for kind in (READ, WRITE, FLUSH))
                        whats[mode, filesystem, age].append((time, counts, features(filesystem, mode, before, within)))
        database.close()
    ms = lambda ns: f"{ns / 1e6:.2f}" if ns < 1e8 else f"{ns / 1e6:.0f}"
    quantities = {
        "mean": lambda times: sum(times) / len(times),
        "p50": lambda times: rank(sorted(times), 0.5),
        "p99": lambda times: rank(sorted(times), 0.99),
        "p99.9": lambda times: rank(sorted(times), 0.999),
        "longest": max,
    }
    table = lambda name: csv.writer(open(os.path.join(out, name), "w", newline=""), lineterminator="\n")
    each, summary, ratios, slowest = (
        table(f"aged-hour{part}.csv") for part in ("", "-summary", "-ratios", "-slowest")
    )
    key = ["journal_mode", "filesystem", "device"]
    each.writerow([*key, "age", "block", "commits", "minutes", *(f"{name}_ms" for name in quantities)])
    summary.writerow([*key, "age", "runs", "commits", "minutes", *(f"{name}_ms" for name in quantities)])
    ratios.writerow([*key, "quantity", "blocks", "aged_over_fresh", "low", "high"])
    slowest.writerow(["journal_mode", "filesystem", "age", "of", "commits", "reads", "writes", "flushes", "what", "share_percent"])
    for (mode, filesystem, age, device), blocks in runs.items():
        for block, times in blocks.items():
            values = [ms(of(times)) for of in quantities.values()]
            each.writerow([mode, filesystem, device, age, block, len(times), f"{sum(times) / 6e10:.2f}", *values])
        cells = []
        for of in quantities.values():
            middle, low, high = mean([of(times) for times in blocks.values()])
            cells.append(f"{ms(middle)} [{ms(low)} to {ms(high)}]")
        commits = sum(len(times) for times in blocks.values())
        minutes = sum(sum(times) for times in blocks.values()) / 6e10
        summary.writerow([mode, filesystem, device, age, len(blocks), commits, f"{minutes:.1f}", *cells])
        if age == "aged":
            fresh = runs[mode, filesystem, "fresh", device]
            shared = sorted(set(blocks) & set(fresh))
            for name, of in quantities.items():
                values = [of(blocks[block]) / of(fresh[block]) for block in shared]
                ratios.writerow([mode, filesystem, device, name, len(shared), *(f"{value:.2f}" for value in mean(values))])
    shown = ("p50", "p99", "p99.9", "longest")
    drawn = [
        (f"{mode.upper()}, {filesystem}, {age}", [mean([quantities[name](times) for times in blocks.values()])[0] for name in shown])
        for (mode, filesystem, age, device), blocks in runs.items()
        if device == DEVICES[0] and "reads" not in filesystem
    ]
    with open(os.path.join(out, "aged-hour.svg"), "w") as file:
        file.write(picture(DEVICES[0], drawn))
    for (mode, filesystem, age), commits in whats.items():
        commits.sort(key=lambda commit: -commit[0])
        count = max(1, len(commits) // 1000)
        for of, part in (("slowest thousandth", commits[:count]), ("others", commits[count:])):
            middle = [sum(commit[1][kind] for commit in part) / len(part) for kind in range(3)]
            shares = collections.Counter(what for commit in part for what in commit[2])
            head = [mode, filesystem, age, of, len(part), *(f"{value:.1f}" for value in middle)]
            for what, found in sorted(shares.items()) or [("", 0)]:
                slowest.writerow([*head, what, f"{100 * found / len(part):.1f}"])


main()

#!/usr/bin/env python3
"""several-app.py FOLDER [TRANSACTIONS] [SEED]: an application with several databases, as SQL.

Writes FOLDER/several.sql, a messenger that keeps messages, contacts and media in a file each and
attaches them, and FOLDER/one.sql, the same statements with all tables in one file. Both are made up:
of the transactions 60 % write one file, 30 % two and 10 % three, which is an assumption (no public
recording has such transactions). Then:

  fathom trace import FOLDER/several.sql --out several-app.trace
  fathom trace import FOLDER/one.sql --out one-app.trace
"""
import random
import sys
from pathlib import Path

TABLES = {
    "messages": "id INTEGER PRIMARY KEY, chat INTEGER, body TEXT, at INTEGER",
    "contacts": "id INTEGER PRIMARY KEY, name TEXT, seen INTEGER, unread INTEGER",
    "media": "id INTEGER PRIMARY KEY, message INTEGER, thumb BLOB, bytes INTEGER",
}
CONTACTS = 200


def text(chance: random.Random, mean: int) -> str:
    length = max(1, min(2000, int(chance.lognormvariate(0, 0.8) * mean)))
    return "".join(chance.choice("abcdefghijklmnopqrstuvwxyz      ") for _ in range(length))


def script(are_several: bool, transactions: int, seed: int) -> str:
    chance = random.Random(seed)
    name = (lambda table: f"{table}.{table}") if are_several else (lambda table: table)
    lines = []
    if are_several:
        lines += [f"ATTACH '{table}.db' AS {table};" for table in TABLES]
    for table, columns in TABLES.items():
        lines.append(f"CREATE TABLE {name(table)}({columns});")
    index = "messages.by_chat" if are_several else "by_chat"
    lines.append(f"CREATE INDEX {index} ON messages(chat, at);")
    lines.append("BEGIN;")
    for contact in range(1, CONTACTS + 1):
        lines.append(f"INSERT INTO {name('contacts')} VALUES({contact}, '{text(chance, 12)}', 0, 0);")
    lines.append("COMMIT;")
    for number in range(1, transactions + 1):
        chat, files = chance.randint(1, CONTACTS), chance.choices([1, 2, 3], [60, 30, 10])[0]
        lines.append("BEGIN IMMEDIATE;")
        lines.append(
            f"INSERT INTO {name('messages')} VALUES({number}, {chat}, '{text(chance, 40)}', {number * 7});"
        )
        if files >= 2:
            lines.append(
                f"UPDATE {name('contacts')} SET seen = {number * 7}, unread = unread + 1 WHERE id = {chat};"
            )
        if files == 3:
            thumb = chance.randbytes(chance.randint(800, 3000)).hex()
            lines.append(
                f"INSERT INTO {name('media')} VALUES({number}, {number}, x'{thumb}', {chance.randint(1, 4000000)});"
            )
        lines.append("COMMIT;")
    return "\n".join(lines) + "\n"


def main() -> None:
    if not 2 <= len(sys.argv) <= 4 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    transactions = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "several.sql").write_text(script(True, transactions, seed), encoding="utf-8")
    (folder / "one.sql").write_text(script(False, transactions, seed), encoding="utf-8")


main()

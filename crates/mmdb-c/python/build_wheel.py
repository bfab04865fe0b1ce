#!/usr/bin/env python3
"""Builds the wheel of mmdb: build_wheel.py libmmdb_c.so DIRECTORY [PLATFORM VERSION [LICENCES…]]

A library for another processor cannot be asked for its version, so that is given with the platform,
such as manylinux_2_28_aarch64. A wheel that is passed on holds the licences of what others wrote
and is linked into the library: files, which keep their names.

Nothing is downloaded, and nothing but Python is needed. The same input gives the same file.
"""

import base64
import ctypes
import hashlib
import os
import platform
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))


def version_of(library: str) -> str:
    lib = ctypes.CDLL(os.path.abspath(library))
    lib.mmdb_version.restype = ctypes.c_char_p
    return lib.mmdb_version().decode()


def build(library: str, to: str, made_for: str, version: str, *licences: str) -> str:
    """Writes the wheel and returns its path."""
    tag = f"py3-none-{made_for}"
    info = f"mmdb-{version}.dist-info"

    def read(*path: str) -> bytes:
        with open(os.path.join(*path), "rb") as file:
            return file.read()

    package = os.path.join(HERE, "mmdb")
    modules = sorted(n for n in os.listdir(package) if n.endswith(".py") or n == "py.typed")
    files = [(f"mmdb/{name}", read(package, name)) for name in modules]
    files.append(("mmdb/libmmdb_c.so", read(library)))
    readme = read(HERE, "..", "README.md")
    metadata = (
        f"Metadata-Version: 2.1\nName: mmdb\nVersion: {version}\n"
        "Summary: An embedded main-memory DBMS with parallel differential logging.\n"
        "License: MIT OR Apache-2.0\nRequires-Python: >=3.8\n"
        "Description-Content-Type: text/markdown\n\n"
    )
    files.append((f"{info}/METADATA", metadata.encode() + readme))
    wheel = f"Wheel-Version: 1.0\nGenerator: mmdb\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files.append((f"{info}/WHEEL", wheel.encode()))
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        files.append((f"{info}/{name}", read(HERE, "..", "..", "..", name)))
    for path in licences:
        files.append((f"{info}/{os.path.basename(path)}", read(path)))

    lines = []
    for name, content in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    lines.append(f"{info}/RECORD,,\n")
    files.append((f"{info}/RECORD", "".join(lines).encode()))

    os.makedirs(to, exist_ok=True)
    path = os.path.join(to, f"mmdb-{version}-{tag}.whl")
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            archive.writestr(entry, content)
    os.replace(path + ".part", path)
    return path


if __name__ == "__main__":
    if len(sys.argv) == 3:
        sys.argv += [f"linux_{platform.machine()}", version_of(sys.argv[1])]
    if len(sys.argv) < 5:
        sys.exit("usage: build_wheel.py libmmdb_c.so DIRECTORY [PLATFORM VERSION [LICENCES...]]")
    print(build(*sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library exports what its version script lists, and needs nothing but the C library."""
import re
import subprocess
import sys

LIBC = re.compile(r"^(libc\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux.*)$")


def main(library, version_script):
    text = open(version_script, encoding="utf-8").read()
    listed = set(re.findall(r"^\t(\w+);$", text.split("local:")[0], re.M))
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in lines.splitlines()}
    dynamic = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert listed, "the version script lists nothing"
    assert exported == listed, f"exported but not listed: {exported - listed}; listed, not exported: {listed - exported}"
    assert all(LIBC.match(name) for name in needed), f"needs {needed}"
    assert "NODELETE" in dynamic, "the library can be unloaded under its thread"


if __name__ == "__main__":
    main(*sys.argv[1:])

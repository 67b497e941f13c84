"""A Python for AArch64 in a folder, run by qemu-user: tilewright on such a machine, tried on another one.

    python -m tools.emulated_python out/aarch64
    out/aarch64/bin/python -m pytest -m fast tests

The interpreter and its libraries are Debian's arm64 packages, unpacked and not installed, which needs no rights; numpy, llvmlite and
the others are the wheels that `pip` would take there. `cc` and the like are cross compilers, so that what is linked can be loaded. The
scripts in bin/ give their own paths for `sys.executable`, so that children are emulated as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main", "make_python"]

EMULATOR, PREFIX = "qemu-aarch64", "aarch64-linux-gnu-"
_TOOLS = {"cc": "gcc", "gcc": "gcc", "c++": "g++", "g++": "g++", "ar": "ar", "strip": "strip"}
"""Names of scripts, and of the cross tools that they stand for."""
_COMPILE = """
out= program=yes before=
for word; do
  shift
  case "$word" in
    -march=native) continue ;;
    -c | -E | -S | -r | -shared) program= ;;
  esac
  [ "$before" != -o ] || out="$word"
  before="$word"
  set -- "$@" "$word"
done
{tool} "$@" || exit
[ -n "$program" ] && [ -f "$out" ] || exit 0
{{ cat "{launcher}" "$out" && printf '%20d' "$(stat -c %s "$out")"; }} >"$out.emulated"
chmod +x "$out.emulated" && mv "$out.emulated" "$out"
"""
"""A cross compiler, which does not know the processor that it is for; a program that it links is this machine's launcher of it."""
_LAUNCHER = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>
/* What stands behind this program's own code, with its size in 20 digits, is emulated. */
int main(int count, char **words) {
  char digits[21] = "", place[32], *command[count + 6];
  int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), copy = memfd_create("program", 0);
  off_t end = lseek(self, -20, SEEK_END);
  if (copy < 0 || read(self, digits, 20) != 20) return 126;
  long size = atol(digits);
  for (off_t at = end - size; at < end;)
    if (sendfile(copy, self, &at, end - at) <= 0) return 126;
  snprintf(place, sizeof place, "/proc/self/fd/%d", copy);
  char *own[] = {EMULATOR, "-L", ROOT, "-0", words[0], place};
  memcpy(command, own, sizeof own);
  memcpy(command + 6, words + 1, count * sizeof *words);
  execvp(EMULATOR, command);
  return 127;
}
"""
"""A program that is a file of its own, which can be moved, sent and read as one."""
PATIENCE = "EMULATED_PATIENCE"
"""The variable of the environment that tells tests how much longer than on a processor they have to wait."""
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
_FOR_TESTS = ("pytest", "pytest-xdist", "hypothesis", "mpmath", "scipy", "z3-solver")
_PACKAGES = ("python3", "libgomp1", "libstdc++6", "libubsan1")
_ROOT = Path(__file__).resolve().parent.parent


class _NotHere(Exception):
    """The machine lacks what is needed; the argument says what."""


def make_python(folder: Path) -> Path:
    """Make the folder's interpreter, unless it is there, and return its path. Raises _NotHere, CalledProcessError."""
    lacking = [tool for tool in (EMULATOR, f"{PREFIX}g++", "gcc", "apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if lacking:
        raise _NotHere(f"not installed: {', '.join(lacking)}")
    python, stamp = folder / "bin" / "python", folder / "complete"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _unpack_system(folder)
        _write_scripts(folder)
        _install_wheels(folder, python)
        stamp.touch()
    return python


def _unpack_system(folder: Path) -> None:
    """Debian's interpreter with all that it depends on, by a package manager that knows of nothing installed."""
    state = folder / "apt"
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True)
    (state / "status").touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
    }
    apt = ["apt-get", "-qq", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    _run([*apt, "update"])
    _run([*apt, "--yes", "--no-install-recommends", "--download-only", "install", *_PACKAGES])
    for package in sorted((state / "cache" / "archives").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(folder / "root")])
    shutil.rmtree(state)


def _write_scripts(folder: Path) -> None:
    """bin/python, which is emulated, and the compilers, which are not."""
    root, scripts, launcher = folder / "root", folder / "bin", folder / "launcher"
    scripts.mkdir()
    words = [f'-D{name}="{value}"' for name, value in (("EMULATOR", EMULATOR), ("ROOT", root))]
    subprocess.run(["gcc", "-O1", *words, "-x", "c", "-", "-o", str(launcher)], input=_LAUNCHER, text=True, check=True)
    (folder / "lib").symlink_to("root/usr/lib")  # where an interpreter in bin/ looks for its modules
    emulated = f'{PATIENCE}=10 PATH="{scripts}:$PATH" exec {EMULATOR} -L "{root}" -0 "$0" "{root}/usr/bin/python3" "$@"'
    native = {
        name: _COMPILE.format(tool=PREFIX + tool, launcher=launcher)
        if tool in ("gcc", "g++")
        else f'exec {PREFIX}{tool} "$@"'
        for name, tool in _TOOLS.items()
    }
    for name, command in {"python": emulated, **native}.items():
        (scripts / name).write_text(f"#!/bin/sh\n{command}\n")
        (scripts / name).chmod(0o755)


def _install_wheels(folder: Path, python: Path) -> None:
    """Install the wheels of what the package depends on and its tests use; the package itself by a path."""
    version = _run([str(python), "-c", "import sys; print(*sys.version_info[:2], sep='.')"]).strip()
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    site = folder / "lib" / "python3" / "dist-packages"
    wanted = ["--python-version", version, "--implementation", "cp", "--only-binary", ":all:", "--no-compile"]
    wanted += [word for name in PLATFORMS for word in ("--platform", name)]
    wanted += [*project["dependencies"], *_FOR_TESTS]
    _run([sys.executable, "-m", "pip", "--quiet", "install", "--upgrade", "--target", str(site), *wanted])
    package = folder / "package"
    package.mkdir()
    (package / "tilewright").symlink_to(_ROOT, target_is_directory=True)
    (site / "tilewright.pth").write_text(f"{package}\n")


def _run(command: Sequence[str]) -> str:
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | {"LC_ALL": "C"}
    ).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the interpreter and print its path; 1 and the reason where it cannot be made here."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.tools.emulated_python", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder.absolute()
    try:
        print(make_python(folder))
    except (_NotHere, subprocess.CalledProcessError) as error:
        print(f"no AArch64 Python here: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

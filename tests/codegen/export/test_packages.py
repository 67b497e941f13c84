"""Programs that other build systems make of a library: by CMake's find_package and by pkg-config, wherever its folder stands."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from exported import run, scale_add

PROGRAM = """\
#include <stdio.h>
#include "scale_add.h"

int main(void) {
    float a[3][6] = {{1, 2, 3, 4, 5, 6}}, b[6] = {1, 1, 1, 1, 1, 1}, c[3][6];
    int32_t status = scale_add(3, &a[0][0], 2, b, &c[0][0]);
    printf("%d %g %g\\n", (int)status, c[0][5], c[2][0]);
    return 0;
}
"""

PROJECT = """\
cmake_minimum_required(VERSION 3.10)
project(user C)
find_package(scale_add 0.1 CONFIG REQUIRED)
find_package(scale_add 0.1 CONFIG REQUIRED)
add_executable(program program.c)
target_link_libraries(program scale_add::scale_add)
"""


def exported(folder: Path, file: str, threads: str = "openmp") -> Path:
    """A folder with the library and a program beside it, to which it was moved after the export."""
    scale_add().export(folder / file, threads=threads)
    library = folder.rename(folder.with_name("kernels moved here"))
    user = library.with_name("user")
    user.mkdir()
    (user / "program.c").write_text(PROGRAM)
    (user / "CMakeLists.txt").write_text(PROJECT)
    return library


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "made").mkdir()
    return tmp_path / "made"


@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("cc"), reason="no cmake and cc here")
@pytest.mark.parametrize("file", ["libscale_add.so", "libscale_add.a", "scale_add.o"])
def test_a_project_of_cmake_finds_the_library(folder: Path, file: str) -> None:
    library = exported(folder, file)
    user = library.with_name("user")
    build = user / "build"
    for command in (["cmake", "-S", user, "-B", build, f"-DCMAKE_PREFIX_PATH={library}"], ["cmake", "--build", build]):
        done = run(command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert run([user / "build" / "program"]).stdout == "0 13 1\n"


@pytest.mark.skipif(not shutil.which("pkg-config") or not shutil.which("cc"), reason="no pkg-config and cc here")
@pytest.mark.parametrize("file", ["libscale_add.so", "libscale_add.a", "scale_add.o", "scale_add.so"])
def test_pkg_config_tells_how_to_compile_with_the_library(folder: Path, file: str) -> None:
    library = exported(folder, file, threads="none" if file.endswith(".o") else "openmp")
    user = library.with_name("user")
    done = subprocess.run(
        "eval cc program.c -o program $(pkg-config --cflags --libs scale_add)",
        shell=True,
        cwd=user,
        capture_output=True,
        text=True,
        env={**os.environ, "PKG_CONFIG_PATH": str(library)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert run([user / "program"]).stdout == "0 13 1\n"


@pytest.mark.skipif(not shutil.which("pkg-config") or not shutil.which("gcc"), reason="no pkg-config and gcc here")
def test_an_archive_is_linked_without_any_shared_library(folder: Path) -> None:
    library = exported(folder, "libscale_add.a", threads="openmp")
    user = library.with_name("user")
    done = subprocess.run(
        "eval gcc -static program.c -o program $(pkg-config --cflags --libs scale_add)",
        shell=True,
        cwd=user,
        capture_output=True,
        text=True,
        env={**os.environ, "PKG_CONFIG_PATH": str(library)},
        check=False,
    )
    if "cannot find -lc" in done.stderr or "cannot find -lm" in done.stderr:
        pytest.skip("no static C library here")
    assert done.returncode == 0, done.stderr
    assert run([user / "program"]).stdout == "0 13 1\n"


def test_a_name_with_a_blank_and_a_dollar_stays_one_word(tmp_path: Path) -> None:
    scale_add().export(tmp_path / "libof $my.so", threads="none")
    assert r"-l:libof\ \$$my.so" in (tmp_path / "of $my.pc").read_text()
    assert '"${CMAKE_CURRENT_LIST_DIR}/libof \\$my.so"' in (tmp_path / "of $myConfig.cmake").read_text()

"""A library as a Python package that needs numpy alone: kernels, types, and what loads and checks, without the compiler.

FOLDER/pyproject.toml            what `pip wheel FOLDER` and `pip install FOLDER` read
FOLDER/NAME/__init__.py          a kernel for each function, typed
FOLDER/NAME/libNAME.so
FOLDER/NAME/_runtime/            tilewright.runtime as it is, and the files that it stands on
"""

from __future__ import annotations

import keyword
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...base.errors import user_source
from ...runtime.abi import PACKED_TYPES, REGISTERED_TYPES
from ...runtime.signature import BufferParam, ScalarParam, Signature
from .errors import NotACName
from .names import check_version, parameter_names

__all__ = ["check_package", "package_sources", "python_name"]

# a part of PEP 440: no epochs, no local versions
_NEEDED = {"numpy", "ml_dtypes", "tilewright"}
# files that the runtime imports from above it
_BELOW_RUNTIME = (
    "__init__.py",
    "dataclass.py",
    "errors.py",
    "limits.py",
    "arguments.py",
    "untrusted_input.py",
    "environment.py",
    "forks.py",
    "nibbles.py",
)
_PAGES = '        self.add_note(f"  page: tilewright explain {self.code}")\n'
"""Names a command that such a package does not bring."""

_PROJECT = """\
[build-system]
requires = ["setuptools>=70.1"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = "Kernels made by tilewright {own}"
requires-python = ">=3.11"
dependencies = {needed}
classifiers = ["Operating System :: POSIX :: Linux", "Typing :: Typed"]

[tool.setuptools]
packages = ["{name}", "{name}._runtime", "{name}._runtime.base", "{name}._runtime.runtime", "{name}._runtime.runtime.hosts"]
package-data = {{ "{name}" = ["*.so", "py.typed"] }}

[tool.distutils.bdist_wheel]
plat-name = "linux_{machine}"
"""

_FACE = '''\
"""{name}: kernels made by tilewright {own}.

They take arrays of numpy, or of whatever has DLPack, and write their outputs in place."""

from __future__ import annotations

import pathlib as _pathlib
import typing as _typing

import numpy.typing as _numpy_typing

from ._runtime.base.errors import TilewrightError as _tw_Error
from ._runtime.runtime.load import load as _tw_load

__all__ = {exported}
__version__ = "{version}"


class _tw_DLPack(_typing.Protocol):
    def __dlpack__(self, **options: _typing.Any) -> _typing.Any: ...

    def __dlpack_device__(self) -> tuple[_typing.Any, _typing.Any]: ...


_tw_Tensor = _numpy_typing.NDArray[_typing.Any] | _tw_DLPack
KernelError = _tw_Error
"""What a call raises that does not fit: `.code` tells which, and the text what to change."""

_tw_kernels: _typing.Any = _tw_load(_pathlib.Path(__file__).with_name("lib{name}.so"))
'''

_FUNCTION = """

class _tw_{name}(_typing.Protocol):
    def __call__(self, {parameters}) -> None:
        {text}


{name}: _tw_{name} = _tw_kernels["{key}"]
"""


def check_package(name: str, version: str) -> None:
    """Raise NotACName for a name or version that no Python package could have beside what it needs."""
    # such a package would shadow what it needs
    if keyword.iskeyword(name) or name in sys.stdlib_module_names or name in _NEEDED:
        raise NotACName(
            f"no Python package can be called {name!r}",
            called=user_source(),
            fix='tw.Library("my_layers")',
            reason="it is a word of Python, a module of its own library, or what the package needs",
        )
    check_version(version)


def python_name(name: str, taken: set[str]) -> str:
    """A name of Python's for one of C's, which it adds to those that are taken."""
    # names that begin with these are the face's own
    chosen = f"{name}_" if keyword.iskeyword(name) or name.startswith(("_tw_", "_runtime")) else name
    while chosen in taken:
        chosen += "_"
    taken.add(chosen)
    return chosen


def package_sources(
    name: str,
    version: str,
    own: str,
    machine: str,
    signatures: Sequence[Signature],
    cases: Mapping[str, Sequence[str]],
) -> dict[str, bytes]:
    """The texts of the package, by their place in the folder: all but the library. own: tilewright's version."""
    taken = {"KernelError"}  # the face exports it
    by_name = {signature.name: signature for signature in signatures}
    functions: list[str] = []
    names: dict[str, str] = {}
    for key in (*cases, *by_name):
        group = [by_name[case] for case in cases.get(key, (key,))]
        names[key] = python_name(key, taken)
        text = "\n\n".join(map(str, group))
        functions.append(_FUNCTION.format(name=names[key], key=key, parameters=_parameters(group[0]), text=repr(text)))
    registered = any(
        param.dtype in (*REGISTERED_TYPES, *PACKED_TYPES) for signature in signatures for param in signature.params
    )
    # only for libraries that use the type
    needed = '["numpy>=1.26", "ml_dtypes>=0.4"]' if registered else '["numpy>=1.26"]'
    face = _FACE.format(name=name, own=own, version=version, exported=["KernelError", *names.values()])
    texts = {
        "pyproject.toml": _PROJECT.format(name=name, version=version, own=own, needed=needed, machine=machine).encode(),
        f"{name}/__init__.py": (face + "".join(functions)).encode(),
        f"{name}/py.typed": b"",
        f"{name}/_runtime/__init__.py": b"",
    }
    return texts | {f"{name}/_runtime/{place}": content for place, content in _runtime_files().items()}


def _parameters(signature: Signature) -> str:
    taken: set[str] = {"self"}
    names = [python_name(each, taken) for each in parameter_names(signature)[len(signature.symbols) :]]
    listed = [f"{name}: {_kind(param)}" for name, param in zip(names, signature.params, strict=True)]
    if any(name != param.name for name, param in zip(names, signature.params, strict=True)):
        listed.append("/")  # the kernel knows it by the other name
    return ", ".join(listed)


def _kind(param: BufferParam | ScalarParam) -> str:
    if isinstance(param, BufferParam):
        return "_tw_Tensor"
    return "bool" if param.dtype == "bool" else "float" if "float" in param.dtype else "int"


def _runtime_files() -> dict[str, bytes]:
    """tilewright's own files, by their place beside each other."""
    root = Path(__file__).resolve().parent.parent.parent
    # sorted, for the same bytes each time
    places = [*(root / "base" / file for file in _BELOW_RUNTIME), *sorted((root / "runtime").rglob("*.py"))]
    files = {place.relative_to(root).as_posix(): place.read_bytes() for place in places}
    # the command is not installed with it
    return {**files, "base/errors.py": files["base/errors.py"].replace(_PAGES.encode(), b"")}

"""Names that a face, a tensor or a schedule lacks: typed errors that say which one was meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..base.errors import TilewrightError, user_source

__all__ = ["unknown_name"]


def unknown_name(
    kind: type[TilewrightError],
    owner: str,
    name: str,
    known: Iterable[str],
    elsewhere: Mapping[str, str] | None = None,
) -> AttributeError:
    """The error for `owner.name`, an AttributeError too. known: the names that there are, of packages below with a dot;
    elsewhere: what to write for names that others have. Names that begin with _ are protocols that Python and others ask for: plain
    errors, quickly made."""
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}")
    from difflib import get_close_matches

    known = sorted(known)
    last = {each.rpartition(".")[2]: each for each in reversed(known)}
    near = [
        last[each] for each in get_close_matches(name, last, 3, 0.6) or get_close_matches(name.lower(), last, 3, 0.6)
    ]
    advice = (elsewhere or {}).get(name)
    fix = (
        f"write {advice}"
        if advice
        else f"did you mean {' or '.join(f'{owner}.{each}' for each in near)}?"
        if near
        else ""
    )
    error = kind(f"{owner} has no {name}", called=user_source(), fix=fix, allowed="" if fix else ", ".join(known))
    assert isinstance(error, AttributeError)
    return error

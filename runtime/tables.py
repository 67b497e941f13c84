"""Tables as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["html_table"]


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table. head: of the columns. rows: what stands in them; text is shown as it is."""
    from html import escape  # late, for it reads a table of two thousand characters

    def row(cells: Iterable[object], kind: str) -> str:
        return (
            "<tr>"
            + "".join(f'<{kind} style="text-align:left">{escape(str(cell))}</{kind}>' for cell in cells)
            + "</tr>"
        )

    return (
        f'<table><caption style="text-align:left">{escape(caption)}</caption>'
        f"<thead>{row(head, 'th')}</thead><tbody>{''.join(row(cells, 'td') for cells in rows)}</tbody></table>"
    )

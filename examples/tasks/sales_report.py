"""Turn a CSV of sales into an HTML report and a plain-text summary.

Parameters: `source`, the CSV; `folder` to write to; both relative to the examples folder.
Equal data gives equal files, each appears whole or not at all: it may run any number of times.
"""

import csv
import html
import os
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from string import Template
from typing import Any

from cronhare import task

EXAMPLES = Path(__file__).resolve().parent.parent
PAGE = Template((EXAMPLES / "data" / "report.template.html").read_text("utf-8"))
ROW = '<tr><td>{name}<td><div class="bar" style="--share:{share:.1%}"></div><td>{amount:,.2f}'


def read_sales(source: Path) -> list[dict[str, Any]]:
    """Read the rows, and add to each its month and its amount."""
    with source.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        try:
            return [
                dict(r, month=r["date"][:7], amount=int(r["quantity"]) * Decimal(r["price"]))
                for r in rows
            ]
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise task.PermanentError(f"{source}, line {rows.line_num}: {error!r}") from error


def total_by(column: str, sales: list[dict[str, Any]]) -> list[tuple[str, Decimal]]:
    """Add up, the largest first; months in their order."""
    totals: defaultdict[str, Decimal] = defaultdict(Decimal)
    for sale in sales:
        totals[sale[column]] += sale["amount"]
    return sorted(totals.items(), key=lambda total: total[0] if column == "month" else -total[1])


def draw_section(column: str, totals: list[tuple[str, Decimal]]) -> str:
    """Draw a table in which the largest amount has the full bar."""
    full = max(amount for _, amount in totals) or 1
    rows = (ROW.format(name=html.escape(name), share=n / full, amount=n) for name, n in totals)
    return "\n".join((f"<h2>By {column}</h2>", "<table>", *rows, "</table>"))


def write_whole(path: Path, text: str) -> None:
    """Write a file that nobody sees half done."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def main(params: dict[str, Any]) -> None:
    """Report on one CSV."""
    sales = read_sales(EXAMPLES / params.get("source", "data/sales.csv"))
    if not sales:
        raise task.PermanentError("there are no sales to report")
    dates = sorted(sale["date"] for sale in sales)
    total = f"{sum(sale['amount'] for sale in sales):,.2f}"
    head = {"first": dates[0], "last": dates[-1], "count": len(sales), "total": total}
    totals = {column: total_by(column, sales) for column in ("region", "product", "month")}
    summary = "{count} sales from {first} to {last}, {total} in all\n".format(**head)
    for column in ("region", "product"):
        summary += "best {}: {}, {:,.2f}\n".format(column, *totals[column][0])
    folder = EXAMPLES / params.get("folder", "var/reports")
    folder.mkdir(parents=True, exist_ok=True)
    sections = "\n".join(draw_section(*item) for item in totals.items())
    write_whole(folder / "sales.html", PAGE.substitute(head, sections=sections))
    write_whole(folder / "sales.txt", summary)
    print(f"{summary}report: {folder / 'sales.html'}")


if __name__ == "__main__":
    task.run(main)

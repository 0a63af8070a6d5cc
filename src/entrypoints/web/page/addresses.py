"""Where things are on the page."""

from urllib.parse import quote


def schedule_path(name: str) -> str:
    """Give the address of a schedule's page.

    >>> schedule_path("#7"), schedule_path("reports/sales")
    ('/ui/schedules/%237', '/ui/schedules/reports/sales')
    """
    return f"/ui/schedules/{quote(name)}"

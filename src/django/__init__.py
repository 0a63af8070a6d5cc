"""cronhare for Django: tasks of `django.tasks`, or of the backport `django-tasks`, with schedules.

INSTALLED_APPS = [..., "cronhare.django"]
TASKS = {"default": {"BACKEND": "cronhare.django.Backend", "OPTIONS": {"app": "shop"}}}

python manage.py cronhare up
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .backend import Backend, DummyBackend, ImmediateBackend
    from .tasks import Task

__all__ = ["Backend", "DummyBackend", "ImmediateBackend", "Task"]


def __getattr__(name: str) -> object:
    """Import the backend where it is asked for: Django looks for apps before it has settings."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import backend  # noqa: PLC0415 - as above

    return getattr(backend, name)

from django.apps import AppConfig


class CronhareConfig(AppConfig):
    """What INSTALLED_APPS names: for `manage.py cronhare`, and `manage.py check`."""

    name = "cronhare.django"
    label = "cronhare"
    verbose_name = "cronhare"

    def ready(self) -> None:
        """Have Django's check of TASKS registered: the module that does it is part of no app."""
        from . import tasks  # noqa: F401, PLC0415 - apps are loaded now

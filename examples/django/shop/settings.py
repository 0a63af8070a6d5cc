"""A small shop: an order is confirmed by a task, and a schedule looks for what is unpaid."""

from pathlib import Path

import django

BASE_DIR = Path(__file__).parents[1]

DEBUG = True
SECRET_KEY = "an example has no secrets"  # noqa: S105
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

INSTALLED_APPS = ["cronhare.django", "orders"]
if django.VERSION < (6,):
    INSTALLED_APPS.append("django_tasks")  # the backport of django.tasks

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / "shop.sqlite3",
        # A transaction that writes waits for its turn at its begin, rather than fail later.
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}

EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = BASE_DIR / "var" / "mail"

TASKS = {
    "default": {
        "BACKEND": "cronhare.django.Backend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {
            "app": "shop",
            "schedules": {
                "remind-unpaid": {
                    "task": "orders.tasks.remind_unpaid",
                    "kwargs": {"days": 3},
                    "schedule": "0 8 * * 1-5",
                    "timezone": "Europe/Berlin",
                    "misfire": "once",
                    "overlap": "skip",
                },
            },
        },
    }
}

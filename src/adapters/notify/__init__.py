"""Telling targets of events: commands, webhooks, mail, listeners. Start reading at `notifier`."""

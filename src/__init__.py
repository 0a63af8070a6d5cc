"""A distributed cron that loses nothing."""

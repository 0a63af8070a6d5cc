"""What monitoring asks a process at `CRON_PROBE_ADDRESS`: does it live, is it ready, its counts."""

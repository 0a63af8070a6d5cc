# Ask a partner who never answers at once.
if [ "$CRON_ATTEMPT" = 1 ]; then
  echo "the partner is busy" >&2
  exit 1
fi

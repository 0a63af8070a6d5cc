# Hand an order to the warehouse, which is closed as long as a file says so.
if [ -e warehouse-is-closed ]; then
  echo "the warehouse is closed" >&2
  exit 1
fi
echo "$CRON_EXECUTION_ID $(date +%s.%N)" >>orders-sent

# Count until somebody says that it is done, and note when each run began and ended.
echo "begins $CRON_EXECUTION_ID" >>shelves
for _ in $(seq 600); do
  [ -e shelves-are-counted ] && break
  sleep 0.1
done
echo "ends $CRON_EXECUTION_ID" >>shelves

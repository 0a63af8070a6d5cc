"""What RabbitMQ must be for us, and the commands by which a person looks at one."""

from datetime import timedelta

from cronhare.domain.diagnosis.guide import BrokerGuide


def guide(vhost: str) -> BrokerGuide:
    """Give RabbitMQ's words, with the commands for one vhost."""
    return BrokerGuide(
        product="RabbitMQ",
        oldest=(3, 10),
        first_untried=(5,),
        lack="its quorum queues know no message TTL",  # and the lanes could not be made of them
        without="set CRON_QUEUE_TYPE=classic, which was not tried there",
        busy="`rabbitmqctl status` and its log say what it is busy with",
        alarm="`rabbitmqctl status` lists the alarms and the limits; make room (memory or disk), "
        "or raise vm_memory_high_watermark or disk_free_limit",
        consumer_timeout=timedelta(minutes=30),  # its default: over AMQP no other can be seen
        longer="raise consumer_timeout in rabbitmq.conf; what it is now, tells `rabbitmqctl eval "
        "'application:get_env(rabbit, consumer_timeout).'` in milliseconds",
        list_bindings=f"`rabbitmqctl list_bindings --vhost {vhost}`",
        list_policies=f"`rabbitmqctl list_policies --vhost {vhost}`",
        count_messages=f"`rabbitmqctl list_queues --vhost {vhost} name messages`",
        list_arguments="`rabbitmqctl list_queues name arguments`",
        list_permissions="`rabbitmqctl list_permissions`",
        purge=lambda queue: f"`rabbitmqctl purge_queue --vhost {vhost} {queue}`",
        delete=lambda queue: f"`rabbitmqctl delete_queue --vhost {vhost} {queue} --if-empty`",
    )

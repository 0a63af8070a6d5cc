"""What is done later. Workers find the functions here, as this module is called `tasks`."""

from datetime import timedelta

from django.core.mail import send_mail
from django.utils import timezone

from cronhare import PermanentError, Retry
from orders.models import Order

try:
    from django.tasks import task
except ImportError:  # before Django 6
    from django_tasks import task


@task(queue_name="mail", timeout="1m", retry=Retry(4, first="30s"))
def confirm(order_id: int) -> str:
    """Send the confirmation; of an order that is confirmed already nothing is sent again."""
    try:
        order = Order.objects.get(pk=order_id)
    except Order.DoesNotExist:
        raise PermanentError(f"there is no order {order_id}") from None
    if order.confirmed_at is None:
        send_mail("Your order", f"We have your {order}.", "shop@example.com", [order.email])
        order.confirmed_at = timezone.now()
        order.save(update_fields=["confirmed_at"])
    return order.email


@task(takes_context=True, priority=-10)
def remind_unpaid(context, days: int) -> dict[str, int]:  # noqa: ANN001 - it differs by Django
    """Remind whoever has not paid; a schedule in the settings has it done each morning."""
    since = timezone.now() - timedelta(days=days)
    unpaid = Order.objects.filter(paid=False, placed_at__lte=since)
    for order in unpaid:
        send_mail("Your order", f"Please pay {order}.", "shop@example.com", [order.email])
    return {"reminded": len(unpaid), "attempt": context.attempt}


@task
async def count() -> int:
    """Count the orders: an async task runs beside others in one process."""
    return await Order.objects.acount()

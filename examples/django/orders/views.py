from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from orders import tasks
from orders.models import Order


@csrf_exempt
@require_POST
def place(request: HttpRequest) -> JsonResponse:
    """Place an order: its confirmation is sent if, and only if, the order is committed."""
    with transaction.atomic():
        order = Order.objects.create(email=request.POST["email"])
        result = tasks.confirm.using(key=f"confirm:{order.pk}").enqueue(order.pk)
    return JsonResponse({"order": order.pk, "result": result.id}, status=201)


def result(_request: HttpRequest, result_id: str) -> JsonResponse:
    """Tell what became of a confirmation."""
    found = tasks.confirm.get_result(result_id)
    return JsonResponse({"status": found.status, "attempts": found.attempts})

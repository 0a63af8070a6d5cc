from django.db import models


class Order(models.Model):
    """What somebody has ordered."""

    email = models.EmailField()
    placed_at = models.DateTimeField(auto_now_add=True)
    confirmed_at = models.DateTimeField(null=True)
    paid = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"order {self.pk}"

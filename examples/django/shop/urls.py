from django.urls import path
from orders import views

urlpatterns = [
    path("orders", views.place),
    path("results/<str:result_id>", views.result),
]

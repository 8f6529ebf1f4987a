"""The admin, and the documentation's view."""

from django.contrib import admin
from django.urls import path
from orders.views import place_order  # type: ignore[import-not-found] # docs/schema.md's

urlpatterns = [path("admin/", admin.site.urls), path("orders", place_order)]

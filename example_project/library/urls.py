"""Addresses of the library's pages."""

from django.urls import path

from . import views

app_name = "library"
urlpatterns = [
    path("", views.search_page, name="search"),
    path("documents/<int:pk>/", views.document_page, name="document"),
    path("queue/", views.queue_page, name="queue"),
]

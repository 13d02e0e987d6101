"""Rows that a project left behind on Django 5.2 with the backport, and how they were made."""

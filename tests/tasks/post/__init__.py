"""A reusable app, as a third party would write it: it knows the tasks framework and no queue."""

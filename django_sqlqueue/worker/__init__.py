"""The worker: it owns time, threads and processes, and neither SQL nor a rule of retrying."""

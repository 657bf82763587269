"""What is known about the cluster itself: facts, scripts, failures, live state."""

"""Questions, metrics, systems, comparison and reports."""

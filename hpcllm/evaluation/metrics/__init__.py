"""Metrics of answers, one module per family; :mod:`~hpcllm.evaluation.scoring` puts them together.

Every metric is computed for one question first and averaged afterwards, so that each average has
a standard error and two systems can be compared question by question.
"""

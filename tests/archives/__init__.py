"""Outlines of real documentation, read once by eye, compared without keeping its text."""

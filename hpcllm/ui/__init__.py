"""The chat page, the staff page and the Slack bot."""

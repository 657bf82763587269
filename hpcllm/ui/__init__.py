"""The pages of the server: chat, shared answers, pages of the index, staff; and the Slack bot."""

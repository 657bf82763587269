"""The Slack bot: one more surface of the same assistant, started by ``hpcllm slack``."""

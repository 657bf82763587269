"""A question becomes passages, a prompt, a draft and a checked, cited answer."""

"""Which models exist, where their files come from, and what runs them."""

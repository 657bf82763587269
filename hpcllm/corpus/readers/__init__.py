"""One module per file format; each turns a file into canonical Markdown."""

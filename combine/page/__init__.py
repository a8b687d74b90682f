"""From bytes to a page: decompression, type, text, and what a page says. Nothing here fetches."""

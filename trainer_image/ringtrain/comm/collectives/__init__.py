"""All-reduces between machines, of encoded values."""

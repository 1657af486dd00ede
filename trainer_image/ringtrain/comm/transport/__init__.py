"""How bytes go between machines."""

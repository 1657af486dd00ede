"""What can be wrong with training data."""


class DataError(ValueError):
    """The training data cannot be used; the message names the path or the field, and what to do."""

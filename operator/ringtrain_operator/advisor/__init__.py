"""Predicts what summing gradients costs a round, and says which codec and algorithm pay off."""

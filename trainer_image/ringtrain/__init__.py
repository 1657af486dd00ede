"""Ringtrain: the trainer side (agent, coordinator, ranks) and the contract it shares with the operator."""

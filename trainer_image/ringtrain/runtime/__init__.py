"""What runs inside a rank: the session with its agent, and `ringtrain.run`."""

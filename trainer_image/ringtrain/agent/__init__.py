"""The agent: the first process of a replica. It owns the ranks, speaks for them, and answers the probes."""

"""The coordinator: one process beside the agent of replica 0, which decides who trains with whom."""

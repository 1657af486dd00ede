"""The Cluster on one machine: processes in place of pods."""

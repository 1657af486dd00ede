"""Ringtrain: the operator, the local runner and the command line."""

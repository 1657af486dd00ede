"""Collectives that can be left at any time, and the reduction of gradients over them."""

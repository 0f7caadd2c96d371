"""Simulated worlds of dispatchers: a tree that loses, changes and crashes, and the promises judged over it."""

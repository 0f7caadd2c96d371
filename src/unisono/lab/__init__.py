"""Experiments: the papers' figures, exploration, planted bugs, fault campaigns."""

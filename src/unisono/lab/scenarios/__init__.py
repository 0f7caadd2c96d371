"""Scenarios: a TOML file describes a world, the exact simulator runs it, judges say whether promises held."""

"""Event notification services: what the ordering layer stands on. It asks for very little: see port.py."""

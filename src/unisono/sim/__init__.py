"""The same engines in a simulated world: one seed decides everything, and a seed replays to the same trace."""

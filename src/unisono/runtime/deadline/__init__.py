"""Events with deadlines, from bus to bus: every bus is a broker of deadline-causal order (engines/deadline_causal)."""

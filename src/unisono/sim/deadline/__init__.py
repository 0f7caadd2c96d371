"""Simulated worlds of deadline-causal order: brokers and subscribers that come, go, sleep and read wrong clocks."""

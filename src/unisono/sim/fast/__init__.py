"""Latency and size of whole batches of events, in arrays: worlds that are too large to send every message in.

The law of the room: nothing here decides anything. Who is in a chain, in which order, and when the order
changes is asked of the engines (`engines/plan`, `engines/topic_managers/ranking.py`); trees, routes, links and
workloads are those that the exact simulator runs over. What is left is to add up the time of links.
"""

"""The multistage sequencer of papers 000 and 001, corrected.

Every topic has a manager with a counter. An event climbs from its topic's manager along the plan's path; each
manager that shares subscribers with the topic adds its own number to the stamp; the last one publishes. Any
two events that two subscribers could both get are then ordered by their stamps, the same for everybody.

Promised here: total notification order among untagged deliveries, always, whatever the network does; and, on
FIFO links and a plan that keeps C1, C2 and C3, that every event is delivered once the network lets it.
Not promised: anything about events on topics that share fewer subscribers than the threshold.
"""

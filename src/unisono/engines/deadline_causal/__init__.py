"""Causes before effects, fresh or not at all: causal order with deadlines (paper 004, corrected).

Brokers multicast events to the brokers of a topic and mend losses by gossip; each hands on to its subscribers what
it delivered, who gossip among themselves. An event names its causal past by one stamp for each stream (what one
broker sends on one topic). Who receives it waits for that past, but never beyond a deadline, neither the event's
own nor that of an effect of it which is already here. What comes too late is dropped, and so is what comes after
one of its effects had to go.

It promises: nothing is delivered after its deadline; nothing after one of its effects; what arrived in time is
dropped only if an effect had to go first. It does not promise that everything arrives: networks lose.
"""

"""Durable subscribers: the rules of their places, who holds one, and which events may be handed out.

Law: at any time the saves of at most one session count; what a session hands out lies within what is saved; and
whoever holds the place next begins with the first event that was not acknowledged.
"""

"""Worlds that move: joins, leaves, epochs, crashes, restarts, zombies, partitions, slow and forgetful storage."""

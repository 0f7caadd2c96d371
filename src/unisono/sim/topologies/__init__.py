"""Who is connected to whom: overlays and physical networks, in arrays."""

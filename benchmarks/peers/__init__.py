"""One small script per peer, the same work for each: see kit.py for what a script must do."""

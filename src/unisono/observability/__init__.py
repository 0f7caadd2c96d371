"""Looking at a running system: metrics, traces and logs."""

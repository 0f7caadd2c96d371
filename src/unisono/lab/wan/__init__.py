"""Real processes that are far apart: links with latency and bandwidth between them, made in user space."""

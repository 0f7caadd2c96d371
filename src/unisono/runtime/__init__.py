"""The asyncio shell around the engines: it carries out effects, keeps time, and is all a user touches."""

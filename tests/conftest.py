"""How all tests run: a busy machine is not a broken promise."""

from hypothesis import settings

settings.register_profile("unisono", deadline=None)
settings.load_profile("unisono")

"""History: the order of everything that was ever stored, and how nodes tell it to those who come late."""

from unisono.engines.chronicle.chronicler import Chronicler
from unisono.engines.chronicle.order import in_order

__all__ = ["Chronicler", "in_order"]

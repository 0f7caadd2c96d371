"""History: the order of everything that was ever stored, and how nodes tell it to those who come late."""

from unisono.engines.chronicle.chronicler import Chronicler
from unisono.engines.chronicle.order import in_order
from unisono.engines.chronicle.present import Present, is_ordered

__all__ = ["Chronicler", "Present", "in_order", "is_ordered"]

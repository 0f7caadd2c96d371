"""The public test kit: what adapters and applications can hold themselves to.

- `unisono.testing.ens_contract`: the suite every event notification service adapter passes.
"""

from unisono.testing.ens_contract import EnsContract

__all__ = ["EnsContract"]

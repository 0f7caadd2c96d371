"""The public test kit: what adapters and applications can hold themselves to.

- `unisono.testing.ens_contract`: the suite every event notification service adapter passes;
- `unisono.testing.store_contract`: the suite every store passes.
"""

from unisono.testing.ens_contract import EnsContract
from unisono.testing.store_contract import StoreContract

__all__ = ["EnsContract", "StoreContract"]

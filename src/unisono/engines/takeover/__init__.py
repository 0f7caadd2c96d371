"""Changing epochs: planned or forced, with nothing acknowledged lost and no order broken.

The rule (docs/protocols/takeover.md): decide by one compare-and-set, seal every lane, compute from the sealed
lanes how far each topic went and which numbers died on the way, write that down in every lane, activate; then
every node starts afresh from it, the survivors too. What a sealed writer still stores is ignored by everybody.
A planned change first lets what is under way finish; a forced one does not wait for anybody.

This room knows lanes, control records and epochs, not who sequences: that is the business of its guests.
"""

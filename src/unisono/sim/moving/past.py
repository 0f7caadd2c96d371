"""What a retained world says can be read of its past, and whether it can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unisono.engines.takeover.recovery import valid_positions
from unisono.model.lanes import EpochRecord, events_of
from unisono.sim.moving.storage import FOR_EVER, Storage


def unreadable(storage: Storage) -> Iterator[str]:
    """Follow the past from the control record on, and look for every event that was stored since."""
    control = storage.control
    if not control.retained:
        return
    begins: Mapping[str, int] = control.begins
    epoch = control.epoch if control.state == "active" else control.epoch - 1
    past = {epoch: begins}
    while epoch > control.volumes[0].epoch:
        record = next((r for lane, at in begins.items() for r in storage.lanes[lane][at - 1 : at]), None)
        if not isinstance(record, EpochRecord) or record.epoch != epoch:
            yield f"the past breaks off at epoch {epoch}, not at {control.volumes[0].epoch}"
            return
        begins, epoch = record.before, epoch - 1
        past[epoch] = begins
    for lane, records in storage.lanes.items():
        for sequence, record in valid_positions(records, FOR_EVER):
            if record.epoch not in past:
                continue
            if sequence <= max(storage.cut.get(lane, 0), past[record.epoch].get(lane, FOR_EVER) - 1):
                for event in events_of(record):
                    yield f"{event.publication.id} of epoch {record.epoch} is to be kept, and cannot be found"

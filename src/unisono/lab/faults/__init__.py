"""Real processes under load, and what is done to them: kills, pauses, cut links, full disks, jumping clocks."""

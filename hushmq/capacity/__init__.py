"""How much a cohort or a fleet takes: messages, bytes, cores, memory, disk, rows; from unit costs that are measured."""

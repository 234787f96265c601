"""The wire contract of devices and calibrator: topics, messages, signatures, and the loss a device recomputes."""

"""The sources of a device's values: standard input, files, serial ports, MQTT topics, a simulated chain."""

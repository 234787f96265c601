"""One MQTT connection: its endpoints, how it reconnects, and what it promises about messages."""

"""The contract both sides speak (topics, messages, signatures, one MQTT connection) and the brokers we run."""

"""The wire contract (topics, messages, signatures), the MQTT connection, and the brokers that hushmq configures."""

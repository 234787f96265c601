"""The agent, a daemon on the device: source → discretise → perturb → outbox → publish."""

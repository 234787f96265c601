"""The daemon on the device: source → discretise → perturb → outbox → publish."""

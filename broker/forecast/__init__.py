"""The consequences of a policy, computed before anything is published: noise, losses, errors, traffic."""

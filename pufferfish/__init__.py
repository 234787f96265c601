"""The privacy mathematics: pure functions and frozen values, no clock, network, logging or configuration."""

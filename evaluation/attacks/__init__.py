"""Attacks from outside of the model that prices assume: what they reached before they were priced, and reach now."""

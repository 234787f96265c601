"""Sides of a tick that are Möbius maps in pieces, and the largest loss on a timeline of them."""

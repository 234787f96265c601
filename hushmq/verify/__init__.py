"""An independent checker of a calibrator's export: every signature, digest and stated loss, recomputed.

It imports the standard library, `cryptography` for Ed25519, and nothing of hushmq, so that a mistake in the
mathematics that spends the budget is not repeated by the one that checks it (tests/test_layout.py holds it to that; the
command line, verify_command.py, is the exception). docs/verify.md says what is checked, theorem by theorem.
"""

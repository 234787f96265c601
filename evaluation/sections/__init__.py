"""The sections of `hushmq evaluate`, a module each; `evaluation.section` lists them."""

"""The sections of `hushmq evaluate`, a module each; `hushmq.evaluation.section_list` lists them."""

"""The sections of `hushmq evaluate`, one module each; `hushmq.evaluation.section_list` lists them."""

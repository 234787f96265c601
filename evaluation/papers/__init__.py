"""The tables and figures of the papers, with our results beside them."""

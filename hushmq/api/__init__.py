"""The public API: what `from hushmq import …` gives. Everything else in hushmq may change without notice."""

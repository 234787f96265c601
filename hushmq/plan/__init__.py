"""`hushmq plan`: what can be had of a stream, before anything is set up."""

"""The recordings of the evaluation: where each is published, and how its file is made from that."""

"""Reference documents, generated from the code they describe."""

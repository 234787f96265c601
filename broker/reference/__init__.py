"""Documents generated from the contract and the models of the configuration files."""

"""Sites and their brokers: identities, access rights, certificates, broker configurations and processes."""

"""What the daemons share: settings files, logging, systemd."""

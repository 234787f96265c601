"""A worker of a fleet: serves many cohorts, each claimed in PostgreSQL, on one session and one broker connection."""

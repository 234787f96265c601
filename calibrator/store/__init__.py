"""The calibrator's database: its tables, and how it is opened."""

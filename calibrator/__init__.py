"""The server: ingest → estimate → calibrate → push; window → charge → release."""

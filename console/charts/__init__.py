"""Pictures as SVG, drawn on the server."""

"""Who counts in which window: admission, silence, and devices that are left out."""

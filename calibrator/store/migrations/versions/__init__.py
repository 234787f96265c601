"""The revisions, one after another; ../__init__.py says how to add one."""

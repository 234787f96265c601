"""Drawing noise from the operating system's generator, in integer arithmetic."""

"""What a device keeps on disk: the outbox, its high-water mark, and the lock on its folder."""

"""Who may see what: users, sessions, limits on logins."""

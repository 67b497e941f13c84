"""Questions about programs, each answered in one place."""

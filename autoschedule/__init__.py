"""Rules that choose schedules: how, for what topi and users declare."""

"""From a schedule to a loop nest."""

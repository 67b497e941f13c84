"""The net of frozen programs: what they become, text by text, must not change unless somebody means it to (README.md)."""

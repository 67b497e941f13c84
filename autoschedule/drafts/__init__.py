"""Drafts: schedules in numbers, and the loop nests of what is applied to them."""

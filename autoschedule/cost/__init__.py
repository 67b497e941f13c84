"""Costs: the time of a loop nest on a processor, of a kernel on a GPU."""

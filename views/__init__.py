"""Views for people: reports, explanations, options, costs, and the check of a schedule."""

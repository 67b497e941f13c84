"""What people look at: reports, explanations, options, costs, and the check of a schedule."""

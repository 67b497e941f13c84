"""Foundation of all layers: errors, limits, arguments, input from outside, the environment, and forks."""

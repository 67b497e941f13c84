"""State of a schedule: stages, their loops and relations, and the records that replay them."""

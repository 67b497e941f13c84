"""What a schedule is: stages, their loops and relations, and the records that replay them."""

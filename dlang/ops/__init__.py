"""The operations and the types of scalars that the language is made of, as records of all that is known of them."""

"""What derivatives cost, in operations counted."""

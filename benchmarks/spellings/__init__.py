"""How much the speed of a program depends on how it is spelled."""

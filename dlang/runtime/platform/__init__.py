"""What knows the operating system: each piece has a portable fallback."""

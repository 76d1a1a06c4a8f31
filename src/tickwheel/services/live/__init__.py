"""What happens now, for people who look on."""

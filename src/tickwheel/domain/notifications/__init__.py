"""Notifications: which events there are, what a rule is, what is gathered into a message, and how it reads."""

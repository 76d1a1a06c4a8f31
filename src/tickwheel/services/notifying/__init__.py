"""Notifications: the rules, what is taken in of what happened, and the messages that go out."""

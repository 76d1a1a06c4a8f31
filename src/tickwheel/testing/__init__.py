"""Test doubles that ship with Tickwheel: virtual clock, faulty wrappers."""

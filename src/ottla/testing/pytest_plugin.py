"""Fixtures for test suites that need a real broker."""

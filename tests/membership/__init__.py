"""Membership by gossip: rules one by one, and whole clusters on a simulated network."""

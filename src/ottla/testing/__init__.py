"""What this project tests itself with, shipped so that others can test what they build on it.

`disk` is a disk in memory that loses what was not synced when it crashes, and fails on demand.
`simulation` runs whole nodes in virtual time under faults that a seed repeats; `checkers` say what went wrong.
`pytest_plugin` gives every test suite a running node. Nothing here is used by a node in production.
"""

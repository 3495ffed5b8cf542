"""The `ottla` command: what a person or a script does with a node from a shell.

One module per command group, loaded when that group is used, so that `ottla start` pays for nothing else. What every
command promises: results on standard output (with `--json` nothing but JSON), everything else on standard error, a
failure as one sentence with a hint, and an exit code of `failures.ExitCode`. Nothing in here knows how a broker works:
it is all asked over the Kafka protocol, but for `start`, which runs one, and `log`, which reads its files.
"""

"""The project's own benchmarks: Ottla and Apache Kafka side by side on one machine.

`python -m bench all` measures every item and writes `docs/benchmarks/`; `python -m bench ITEM` one of them, `quick`
sees within three minutes whether a message has become dearer, and `one NAME` runs a single workload against Ottla alone
within seconds, for whoever optimises; `pairs` tells whether that made it quicker.

What lives here: load drivers in C (`native/`, compiled at first use), the servers under test (`servers`, kept up by
`fleet`), what is measured (`workloads`, grouped into `items`), in which order (`runner`, `campaign`), and how it is
told (`report` on a terminal, `results` and `page` in the documentation, `verdicts` on goals). What doesn't: anything
that Ottla imports. `ottla bench` is the small benchmark for users; this one is for those who work on Ottla itself.

The figure to steer by is the broker's CPU time per message, which stays put on a noisy machine where rates don't.
"""

"""The project's own benchmarks: Ottla and Apache Kafka side by side on one machine.

`python -m bench quick` compares the two in a few minutes, `full` repeats every workload with longer windows, `one NAME`
runs a single workload against Ottla alone within seconds, for whoever optimises.

What lives here: load drivers in C (`native/`, compiled at first use), the servers under test (`servers`), what is
measured (`workloads`), in which order (`runner`) and how it is told (`report`). What doesn't: anything that Ottla
imports. `ottla bench` is the small benchmark for users; this one is for those who work on Ottla itself.

The figure to steer by is the broker's CPU time per message, which stays put on a noisy machine where rates don't.
"""

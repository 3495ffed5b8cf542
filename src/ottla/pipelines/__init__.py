"""The pipeline of an ingestion service, on Spark: from raw events to clean ones, windows and joined orders.

    settings      how late events may be, how long windows are, which topics
    parsing       records to events, or to a reason why not
    queries       windows and the join, in SQL
    definitions   all of it as a declarative pipeline (`spark-pipelines`)
    project       a directory with a pipeline: its description, tables, checkpoints
    running       runs it once or again and again, in one Spark
    standalone    a Spark cluster of a master and workers on this machine
    tables        what is committed in a table, read without Spark
    expected      what the results must be for what was sent
    checking      the results in topics and tables beside what they must be

Only `parsing`, `definitions` and `running` need Spark. Results are exactly once: a run that was killed is run again,
and goes on where its checkpoints say.
"""

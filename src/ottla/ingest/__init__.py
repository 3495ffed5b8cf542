"""Events of an ingestion service, made up: for demonstrations, load, and tests that know the right answer.

    events      what is sent, and what should become of it; seeded, no I/O
    truth       what should come out at the end: written beside what is sent, read by whoever checks
    sending     to a topic by the Kafka protocol or over HTTP

What the events mean is told by the pipeline that reads them (`ottla.pipelines`).
"""

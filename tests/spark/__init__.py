"""The Spark source and sink. What needs Java is in `test_source` and `test_sink`; the rest runs anywhere."""

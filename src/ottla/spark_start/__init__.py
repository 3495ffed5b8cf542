"""A directory for `PYTHONPATH`: what Python processes of Spark load first. See `sitecustomize`."""

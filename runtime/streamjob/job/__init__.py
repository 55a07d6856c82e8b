"""The job: its model, its file formats, the checks that need no Spark, and its plan."""

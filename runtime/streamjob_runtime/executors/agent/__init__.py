"""The process of an executor: it runs Spark's executor and keeps the files of its partitions."""

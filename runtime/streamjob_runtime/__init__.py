"""The runtime: the driver's side of streamjob, on PySpark."""

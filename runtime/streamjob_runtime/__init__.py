"""What runs a job: the driver's side of streamjob, on PySpark."""

"""`streamjob import`: makes a job of a PySpark program, by running it with a recorder in the place of Spark."""

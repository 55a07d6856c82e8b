"""Changes the state of restored chains to the form that their new queries need, by Spark, and verifies it."""

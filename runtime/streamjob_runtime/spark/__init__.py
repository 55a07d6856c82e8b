"""The embedded Spark: its Java, its session, our Java classes, and the files of its checkpoint directories."""

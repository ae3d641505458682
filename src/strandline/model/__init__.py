"""What is meant: descriptions, their laws, and the plain oracle. No Spark, no Arrow, no clock, no I/O."""

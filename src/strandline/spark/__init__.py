"""Where it runs: the only folder that imports pyspark, and the one clock."""

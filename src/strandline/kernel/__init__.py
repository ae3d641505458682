"""How it is computed, in columns: pure functions of tables and ticks."""

"""How servers outside are reached: settings, secrets, and what a client said, as sources and sinks both need it."""

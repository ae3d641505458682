"""Where rows go: a contract first, then one module for each kind of sink."""

"""Where state lives: storage, state files, output files, manifests, savepoints and clean-up."""

"""Docker and Podman: detect says whether an engine is here, client which containers run."""

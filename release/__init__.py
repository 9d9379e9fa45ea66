"""What is released of the agent: wheel, Debian package, RPM. `make agent` runs it, no hub does."""

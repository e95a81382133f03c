"""One file an outside system: thin, behind the ports, and the only importer of its library."""

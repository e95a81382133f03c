"""idlewin lends idle GPU cards to batch work, and has serving back before its users return."""

__version__ = "0.1.0"

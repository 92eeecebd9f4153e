"""The only place where the version is defined."""

__version__ = "0.2.0.dev0"

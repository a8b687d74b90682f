"""The library of Combine: the brains that the daemons and the command are shells of."""

__version__ = "0.1.0"

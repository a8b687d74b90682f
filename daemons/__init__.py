"""The daemons of Combine, thin shells over `combine`; none imports another."""

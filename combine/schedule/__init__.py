"""When may which URL be asked: queues, scope, politeness, visits, names. Clock and chance are parameters."""

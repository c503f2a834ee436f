"""Pages of a finished run, from ``templates/``."""

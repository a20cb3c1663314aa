"""Every claim that the README makes, measured."""

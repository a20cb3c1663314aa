"""Where the bundled base model ``tiny-flux`` comes from: its language, its pictures, its training, its files."""

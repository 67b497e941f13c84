"""Libraries that stand alone: machine code with a C face, its header and its manifest. See exporter.Exporter."""

"""Between processes: nodes, clients, and what travels between them on a broker."""

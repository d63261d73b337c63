"""One bot in several processes on one PostgreSQL server: gateways hear and record, workers answer."""

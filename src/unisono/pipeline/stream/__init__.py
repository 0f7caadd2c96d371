"""Live on Spark: lanes as a source of rows in the one order, rows as ordered events."""

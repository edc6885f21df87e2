"""Statistics on plain numbers: intervals, tests, corrections and number formats."""

"""Words everybody shares: pure data, no behaviour that needs a clock, a socket or luck."""

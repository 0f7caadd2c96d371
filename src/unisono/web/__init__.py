"""The dashboard: a page for an operator and for the curious. It looks, and changes nothing."""

"""The client side of the control API: models of its JSON, an HTTP client, and the discovery of running jobs."""

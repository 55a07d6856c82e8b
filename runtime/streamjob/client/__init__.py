"""The control API as its clients see it: models of its JSON, an HTTP client, and how a running job is found."""

"""The control API's server: HTTP with a bearer token, on top of the object that controls the job."""

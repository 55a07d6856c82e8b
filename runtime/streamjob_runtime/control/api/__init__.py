"""The control API's server: HTTP with a bearer token, in front of the object that controls the job."""

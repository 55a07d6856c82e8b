"""The controller: runs StreamJobs on Kubernetes."""

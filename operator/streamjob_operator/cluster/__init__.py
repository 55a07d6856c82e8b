"""Access to the Kubernetes API: plain objects, few verbs, one error per cause."""

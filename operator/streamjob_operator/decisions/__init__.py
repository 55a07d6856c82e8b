"""Pure decisions: what is to be stored in a resource's status and done next, given what was observed."""

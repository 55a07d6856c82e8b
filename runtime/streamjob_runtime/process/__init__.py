"""The process behind `streamjob run`: options, signals, exit codes."""

"""The page of all jobs: who may see what, what each job's row says, and the way to the jobs' own pages."""

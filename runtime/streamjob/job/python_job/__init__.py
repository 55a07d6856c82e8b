"""Jobs in Python: `Job`, its methods and their arguments."""

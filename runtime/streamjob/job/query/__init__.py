"""Analyses the SQL, the expressions and the functions of operators."""

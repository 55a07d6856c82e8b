"""The snapshot protocol as pure code: decisions over values, and programs that yield their effects.

This code never accesses a store, a clock, a thread or the network; `streamjob.store.effects` explains how programs are
run.
"""

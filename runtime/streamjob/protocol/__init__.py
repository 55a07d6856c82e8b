"""The snapshot protocol as pure code: decisions over values, and programs that yield their effects.

Nothing here reaches a store, a clock, a thread or the network; `streamjob.store.effects` says how programs are run.
"""

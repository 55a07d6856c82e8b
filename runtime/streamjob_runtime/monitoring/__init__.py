"""The job's metrics, and the figures behind them."""

"""How much clients may ask of this broker (KIP-13, 124, 219, 599): who has which quota (`limits`), how fast somebody is
(`rates`), and what a request costs (`Quotas`, in `counting`). With no quota set, nothing is counted.
"""

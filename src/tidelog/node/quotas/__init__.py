"""How much clients may ask of this broker (KIP-13, 124, 219, 599): who has which quota (`limits`), how fast somebody is
(`rates`), what a request costs (`Quotas`, in `counting`), and its way from being served to an answer that says so and a
connection that is not heard (`billing`, `muting`). With no quota set, nothing is counted.
"""

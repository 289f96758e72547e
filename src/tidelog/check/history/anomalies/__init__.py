"""One family of anomalies a file; each `find` takes the facts and yields what it can prove."""

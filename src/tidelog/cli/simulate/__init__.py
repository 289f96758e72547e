"""`tidelog simulate`: `simulate_command.py` parses the options, `seed_runs.py` runs seeds, `mutant_hunt.py` hunts the
mutants of the catalogue and `drawn` those drawn by machine; `process_pool.py` spreads the work over processes."""

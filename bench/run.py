"""Tidelog and Apache Kafka side by side: `scripts/bench [ROW…] [--quick]`.

Each row brings up both sides on loopback, warms each with one unmeasured pass and measures in turns. What was measured
goes to bench/results.json at once, and from there to bench/RESULTS.md; rows that are not run keep their figures.
--quick runs a tenth of the size and writes nothing.
"""

import sys
import time

from bench.report import Results
from bench.rows import ROWS

QUICK = "--quick"
QUICK_SCALE = 0.1


def main(arguments: list[str]) -> int:
    quick = QUICK in arguments
    wanted = [argument for argument in arguments if argument != QUICK] or list(ROWS)
    if unknown := [row for row in wanted if row not in ROWS]:
        print(f"bench: there is no row {unknown[0]}; rows are {' '.join(ROWS)}", file=sys.stderr)
        return 1
    results = Results()
    for row in dict.fromkeys(ROWS[number] for number in wanted):
        begin = time.perf_counter()
        print(f"row {' '.join(number for number in ROWS if ROWS[number] is row)}", flush=True)
        for measure in row(QUICK_SCALE if quick else 1.0):
            print(results.summary(measure), flush=True)
            if not quick:
                results.keep(measure)
        print(f"  took {time.perf_counter() - begin:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

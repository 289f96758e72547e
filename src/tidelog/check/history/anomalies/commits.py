"""A group's committed offsets. commit-beyond-poll: an offset beyond what anybody had read. lost-commit: the committed
offset is not one that can have been committed last."""

from collections.abc import Iterator

from tidelog.check.history.anomalies import Anomaly
from tidelog.check.history.facts import Facts
from tidelog.check.history.operation import COMMITTED, FAIL, OK, Call

COMMIT_BEYOND_POLL, LOST_COMMIT = "commit-beyond-poll", "lost-commit"


def find_wrong_commits(facts: Facts) -> Iterator[Anomaly]:
    yield from _beyond(facts)
    commits = [call for call in facts.calls if call.commits and call.outcome != FAIL]
    for call in facts.calls:
        if call.invoke.f == COMMITTED and call.outcome == OK and call.end is not None:
            for key in sorted({key for commit in commits for key in commit.commits}):
                yield from _check_committed(key, call.end.value.get(key), call, commits)


def _beyond(facts: Facts) -> Iterator[Anomaly]:
    highest = {
        key: max((read.offset for seen in reads.values() for read in seen), default=-1)
        for key, reads in facts.reads.items()
    }
    for call in facts.calls:
        for key, offset in call.commits.items():
            if offset > highest.get(key, -1) + 1:
                sentence = f"offset {offset} was committed, but nobody read beyond {highest.get(key, -1)}"
                yield Anomaly(COMMIT_BEYOND_POLL, sentence, (call.line,), key, offset)


def _check_committed(key: int, found: int | None, fetched: Call, commits: list[Call]) -> Iterator[Anomaly]:
    """The offset found is legal if a commit of it began before the answer, and no other commit began after that
    commit's end and succeeded before the request."""
    of_key = [commit for commit in commits if key in commit.commits and commit.invoke.line < fetched.line]
    if any(commit.commits[key] == found and not _is_superseded(commit, key, fetched, of_key) for commit in of_key):
        return
    certain = [commit for commit in of_key if commit.outcome == OK and commit.line < fetched.invoke.line]
    if certain or found is not None:
        last = f"{certain[-1].commits[key]} was committed last" if certain else "that was never committed"
        lines = (certain[-1].line, fetched.line) if certain else (fetched.line,)
        yield Anomaly(LOST_COMMIT, f"the group's offset is {found}, but {last}", lines, key, found)


def _is_superseded(commit: Call, key: int, fetched: Call, commits: list[Call]) -> bool:
    if commit.outcome != OK:
        return False
    return any(
        later.outcome == OK
        and later.invoke.line > commit.line
        and later.line < fetched.invoke.line
        and later.commits[key] != commit.commits[key]
        for later in commits
    )

"""`tidelog pipeline`: what it lists, what it refuses before Spark starts, and how it reports progress."""

import json
import signal

import pytest

from tidelog.cli.main import run
from tidelog.cli.pipeline import _innermost_cause, print_progress, progress_row
from tidelog.spark.pipelines.plan import Plan, Stage, WrongOption, claim_checkpoint
from tidelog.spark.pipelines.running import QueryFailed, Report, Standing, Watch, lag
from tidelog.spark.pipelines.running import run as run_stages
from tidelog.spark.pipelines.table import PIPELINES

NOWHERE = "127.0.0.1:1"


def test_pipelines_are_listed_with_their_options(capsys):
    assert run(["pipeline", "list"]) == 0
    told = capsys.readouterr().out
    assert [line.split(":")[0] for line in told.splitlines() if not line.startswith(" ")] == [
        "flights",
        "lag",
        "mirror",
        "lake",
        "cdc",
        "replay",
    ]
    assert "  topics (required): Topics to copy, separated by commas." in told
    assert run(["pipeline", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["lake"]["options"]["format"]["default"] == "delta"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing"], "Unknown pipeline 'nothing'; expected one of flights, lag, mirror, lake, cdc, replay."),
        (["mirror", "--option", "to=a:1"], "Pipeline mirror: option 'topics' is required: Topics to copy"),
        (["lake", "--option", "topc=a"], "Pipeline lake: unknown option 'topc'; expected one of topic, path"),
        (["flights", "--every", "often"], "Pipeline flights: option 'every' is a time like '5 minutes', not 'often'."),
        (["flights", "--bootstrap", NOWHERE], NOWHERE),
        (["flights", "--bootstrap", "here"], "'here' is not a valid address"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, capsys, arguments, told):
    assert run(["pipeline", "run", *arguments, "--checkpoint", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.err.count("\n") == 1
    assert not any(tmp_path.iterdir()), "Spark was not started"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--spark", "spark.master=local[4]"], {"spark.master": "local[4]"}),
        (["--conf", "a=1", "--conf", "b=2", "--master", "yarn"], {"a": "1", "b": "2", "spark.master": "yarn"}),
        (["--master", "local", "--conf", "spark.master=yarn"], {"spark.master": "local"}),
        (["--py-files", "a.py,b.zip"], {"spark.submit.pyFiles": "a.py,b.zip"}),
    ],
)
def test_options_of_spark_submit_are_settings_of_the_session(tmp_path, monkeypatch, arguments, wanted):
    class Started(Exception):
        pass

    def started(_log, settings):
        assert settings == wanted
        raise Started

    monkeypatch.setattr("tidelog.cli.pipeline.check_java", lambda: None)
    monkeypatch.setattr("tidelog.cli.admin_requests.check_reachable", lambda _: None)
    monkeypatch.setattr("tidelog.spark.pipelines.session.session", started)
    terminating = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(Started):
            run(["pipeline", "run", "flights", "--checkpoint", str(tmp_path), *arguments])
    finally:
        signal.signal(signal.SIGTERM, terminating)


def report(batch, rows, end, latest):
    sources = [{"endOffset": end, "latestOffset": latest}]
    return {"batchId": batch, "numInputRows": rows, "processedRowsPerSecond": 10.0, "sources": sources}


def test_reports_are_added_up():
    watch = Watch()
    assert not watch.update([])
    first = report(0, 5, {"t": {"0": 3, "1": 2}}, '{"t":{"0":4,"1":9},"@epochs":{"t":{"0":7}},"@ids":{"t":"x"}}')
    assert watch.update([first])
    assert watch.standing == Standing(0, 5, 10.0, 8)
    assert not watch.update([first])
    assert watch.update([first, report(1, 8, {"t": {"0": 4, "1": 9}}, {"t": {"0": 4, "1": 9}})])
    assert watch.standing == Standing(1, 13, 10.0, 0)


def test_rows_are_those_of_the_sources_where_spark_connect_reports_no_sum():
    watch = Watch()
    sources = [{"numInputRows": 3}, {"numInputRows": 4}, {"numInputRows": None}]
    assert watch.update([{**report(0, None, {}, {}), "sources": sources}])
    assert watch.standing.rows == 7


@pytest.mark.parametrize("sources", [[], [{}], [{"endOffset": "?", "latestOffset": "?"}], [{"latestOffset": None}]])
def test_no_lag_is_told_where_spark_tells_none(sources):
    assert lag(sources) is None


def test_in_a_pipe_each_batch_is_a_line(capsys):
    with print_progress() as tell:
        tell(Report("copy", Standing(-1, 0, 0.0, None), is_new=False))
        tell(Report("copy", Standing(3, 1200, 55.5, 7), is_new=True))
        tell(Report("copy", Standing(3, 1200, 55.5, 7), is_new=False))
    assert capsys.readouterr().err == "copy: batch 3, 1,200 rows, 56 rows/s, lag 7\n"
    assert progress_row(Report("copy", Standing(-1, 0, 0.0, None), is_new=False)) == ("copy", "", "0", "0", "")


def test_the_cause_of_sparks_error_is_found():
    spark = "[STREAM_FAILED] Query terminated: Traceback\n  File\ntidelog.spark.options.BadOption: option 'x' is wrong\n SQLSTATE"
    assert _innermost_cause(Exception(spark)) == "option 'x' is wrong"
    assert _innermost_cause(Exception("plainly wrong\nmore")) == "plainly wrong"


class Query:
    """A query that has ended already: with this error, after these batches."""

    isActive = False  # noqa: N815  Spark's name

    def __init__(self, error, batches=()):
        self._error = error
        self.recentProgress = [report(batch, 1, {}, {}) for batch in batches]

    def exception(self):
        return self._error

    def stop(self):
        pass


def started(*queries):
    left = list(queries)
    return Stage("copy", lambda: left.pop(0)), left


def test_a_stage_that_fails_is_started_again():
    stage, left = started(Query(OSError("1")), Query(OSError("2"), [0]), Query(OSError("3"), [0]), Query(None, [0, 1]))
    told = []
    run_stages([stage], once=True, on_progress=told.append, restarts=2)
    assert left == []
    assert told[-1].standing.batch == 1


def test_a_stage_that_fails_again_and_again_is_given_up():
    stage, left = started(*(Query(OSError(str(number))) for number in range(5)))
    with pytest.raises(QueryFailed, match="stage copy ended: 2"):
        run_stages([stage], once=True, on_progress=lambda _: None, restarts=2)
    assert len(left) == 2


def test_what_is_not_wanted_any_more_is_stopped():
    stage, left = started(Query(None), Query(None))
    run_stages([stage], once=False, on_progress=lambda _: None, is_wanted=lambda: False)
    assert len(left) == 1


def test_topics_of_a_mirror_come_and_go_as_long_as_one_stays(tmp_path):
    (tmp_path / "copy" / "offsets").mkdir(parents=True)
    (tmp_path / "copy" / "offsets" / "0").touch()
    for topics in ("a,b", "b, c", "c"):
        claimed(tmp_path, "mirror", {"topics": topics, "to": "a:1"})
    with pytest.raises(WrongOption, match="the checkpoint is of topics=c, not a: give another --checkpoint than "):
        claimed(tmp_path, "mirror", {"topics": "a", "to": "a:1"})


def claimed(folder, name, options):
    given = {"path": "p", "topic": "orders", **options}
    pipeline = PIPELINES[name]
    wanted = {option: text for option, text in given.items() if option in pipeline.options}
    claim_checkpoint(name, pipeline, Plan("a:1", folder, pipeline.complete(wanted)))


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("flights", {}, "the checkpoint is one of pipeline lake: give another --checkpoint than "),
        ("lake", {"topic": "other"}, "the checkpoint is of topic=orders, not other: give another --checkpoint than "),
        ("lake", {"format": "parquet"}, "the checkpoint is of format=delta, not parquet: .*, or format as it was"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_once_it_has_begun(tmp_path, name, options, told):
    claimed(tmp_path, "lake", {"topic": "mistyped"})
    claimed(tmp_path, "lake", {"topic": "orders"})
    (tmp_path / "lake" / "offsets").mkdir(parents=True)
    (tmp_path / "lake" / "offsets" / "0").touch()
    claimed(tmp_path, "lake", {"compact": "3"})
    with pytest.raises(WrongOption, match=told):
        claimed(tmp_path, name, options)

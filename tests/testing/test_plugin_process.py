"""The pytest plugin: an inner pytest runs tests that use its fixtures."""

import pytest

pytest_plugins = ["pytester"]

ONE_BROKER = "--tidelog-brokers=1"


@pytest.fixture
def run(pytester):
    """Run the tests in this text, in this process."""

    def run(text, *options):
        pytester.makepyfile(text)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio", *options)

    return run


USED = """
    import time
    import pytest
    from tidelog.shell.transport import Producer

    seen = []

    @pytest.mark.parametrize("number", [1, 2])
    def test_topics(tidelog_cluster, tidelog_topic, number):
        seen.append((tidelog_cluster, tidelog_topic))
        with Producer(tidelog_cluster.bootstrap) as producer:
            producer.send(tidelog_topic, b"1")
            assert producer.flush(30)[0].offset == 0

    def test_they_differ():
        assert len(set(seen)) == 2 and seen[0][0] is seen[1][0]

    @pytest.mark.tidelog_topic(partitions=3)
    def test_the_mark_chooses_partitions(tidelog_cluster, tidelog_topic):
        assert tidelog_cluster.leader(tidelog_topic, 2) == 0
        with pytest.raises(ValueError, match="partition 3 of .* does not exist; expected 0 to 2"):
            tidelog_cluster.leader(tidelog_topic, 3)
        tidelog_cluster.advance_clock(hours=7)
        tidelog_cluster.kill(0)

    def test_the_clock_is_the_machines_again(tidelog_cluster):
        wall = tidelog_cluster.brokers[0].call(lambda hosted: hosted.parts.clock().wall)
        assert abs(wall - time.time() * 1000) < 3_600_000

    def test_a_killed_broker_is_back_and_topics_are_gone(tidelog_cluster):
        with pytest.raises(ValueError, match="topic '.*' does not exist"):
            tidelog_cluster.leader(seen[0][1])

    def test_a_cluster_of_its_own(tidelog, tidelog_cluster):
        cluster = tidelog(brokers=2, num_partitions=2)
        assert len(cluster.brokers) == 2 and cluster is not tidelog_cluster
        seen.append(cluster)

    def test_that_was_closed():
        assert not any(broker.is_running for broker in seen[-1].brokers)
"""


def test_tests_share_a_cluster_and_each_has_its_topic(run):
    run(USED, ONE_BROKER).assert_outcomes(passed=8)


FAILING = """
    def test_fails(tidelog_cluster, tidelog_topic):
        tidelog_cluster.brokers[0].logger.write("info", "mark.made", {"word": "visible in the report"})
        assert not tidelog_topic

    def test_passes(tidelog_cluster):
        tidelog_cluster.brokers[0].logger.write("info", "mark.made", {"word": "of the passed one"})
"""


def test_the_report_of_a_failed_test_has_what_its_brokers_logged(run):
    result = run(FAILING, ONE_BROKER)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Tidelog broker-0*", "*broker.listening*", "* INFO mark.made word='visible in *"])
    assert "of the passed one" not in result.stdout.str()


def test_a_run_that_does_not_use_it_does_not_import_tidelog(pytester):
    program = "import sys, pytest_tidelog; print([name for name in sys.modules if name.startswith('tidelog')])"
    assert pytester.runpython_c(program).outlines == ["[]"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tidelog-brokers=0"], "tidelog_brokers: '0' is not a number of brokers; expected 1 or more"),
        (["-o", "tidelog_brokers=three"], "tidelog_brokers: 'three' is not a number of brokers; expected 1 or more"),
    ],
)
def test_a_wrong_number_of_brokers_is_one_sentence(run, options, said):
    result = run("def test_nothing(): pass", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{said}"])


def test_options_of_the_shared_cluster_are_in_the_ini_file(run, pytester):
    pytester.makeini("[pytest]\ntidelog_brokers = 1\ntidelog_options =\n    num.partitions = 5\n    node.id")
    result = run("def test_it(tidelog_cluster): pass")
    result.stdout.fnmatch_lines(["*tidelog_options: 'node.id' is not an option; expected NAME=VALUE"])
    pytester.makeini("[pytest]\ntidelog_brokers = 1\ntidelog_options =\n    num.partitions = 5")
    run("""
    def test_it(tidelog_cluster):
        assert tidelog_cluster.brokers[0].properties()["num.partitions"] == "5"
        assert len(tidelog_cluster.brokers) == 1
    """).assert_outcomes(passed=1)


ASYNC = """
    import asyncio
    import pytest
    from aiokafka import AIOKafkaProducer
    from tidelog.testing import Cluster

    @pytest.mark.asyncio
    async def test_the_shared_cluster(tidelog_cluster, tidelog_topic):
        async with AIOKafkaProducer(bootstrap_servers=tidelog_cluster.bootstrap) as producer:
            assert (await producer.send_and_wait(tidelog_topic, b"1")).offset == 0

    @pytest.mark.asyncio
    async def test_one_of_its_own():
        ticks = []

        async def tick():
            while True:
                ticks.append(await asyncio.sleep(0))

        ticking = asyncio.create_task(tick())
        async with Cluster(brokers=1) as cluster:
            assert ticks  # the loop went on while the cluster started
        ticking.cancel()
"""


def test_it_works_with_pytest_asyncio(pytester):
    pytester.makepyfile(ASYNC)
    pytester.runpytest_subprocess(ONE_BROKER, "-p", "asyncio").assert_outcomes(passed=2)


UNITTEST = """
    import unittest
    import pytest
    from tidelog.testing import Cluster

    class OwnCluster(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            cls.cluster = cls.enterClassContext(Cluster(brokers=1))

        def test_it(self):
            self.cluster.create_topic("t")
            self.assertEqual(self.cluster.leader("t"), 0)

    @pytest.mark.usefixtures("shared")
    class SharedCluster(unittest.TestCase):
        def test_it(self):
            self.assertEqual(self.cluster.leader(self.topic), 0)

        def test_again(self):
            self.assertIn("test_again", self.topic)

    @pytest.fixture
    def shared(request, tidelog_cluster, tidelog_topic):
        request.cls.cluster, request.cls.topic = tidelog_cluster, tidelog_topic

    if __name__ == "__main__":
        unittest.main(defaultTest="OwnCluster")
"""


def test_it_works_with_unittest(pytester):
    path = pytester.makepyfile(UNITTEST)
    pytester.runpytest_subprocess(ONE_BROKER).assert_outcomes(passed=3)
    assert pytester.runpython(path).ret == 0


SPREAD = """
    import os
    import pytest

    @pytest.mark.parametrize("number", range(4))
    def test_it(tidelog_cluster, tidelog_topic, number):
        with open(os.environ["SEEN"], "a") as seen:
            seen.write(f"{os.environ['PYTEST_XDIST_WORKER']} {tidelog_cluster.bootstrap}\\n")
"""


def test_each_worker_of_xdist_has_its_cluster(pytester, monkeypatch):
    seen = pytester.path / "seen"
    monkeypatch.setenv("SEEN", str(seen))
    pytester.makepyfile(SPREAD)
    pytester.runpytest_subprocess(ONE_BROKER, "-n", "2", "--dist", "load").assert_outcomes(passed=4)
    workers = dict(line.split() for line in seen.read_text().splitlines())
    assert len(set(workers.values())) == len(workers) == 2

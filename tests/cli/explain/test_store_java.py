"""`tidelog explain` while ZooKeeper is dead: the store and the controller are missed, whatever metadata shows."""

import json

from tests.ensemble import Ensemble
from tests.waiting import wait_for
from tidelog.cli.main import run
from tidelog.testing import Cluster

TERM_MS = 2_000


def test_a_dead_store_and_no_controller_are_reported(tmp_path, capsys):
    with Ensemble(tmp_path / "zookeeper") as ensemble:
        options = {"zookeeper.connect": f"{ensemble.hosts}/explained", "zookeeper.session.timeout.ms": str(TERM_MS)}
        with Cluster(brokers=2, folder=tmp_path / "data", options=options) as cluster:
            cluster.create_topic("t")

            def explained():
                capsys.readouterr()
                place = ("--bootstrap-server", cluster.bootstrap, "--watch-ms", "0", "--patience-ms", "0", "--json")
                code = run(("explain", "cluster", *place))
                return code, {each["kind"] for each in json.loads(capsys.readouterr().out)["findings"]}

            missed = {"cluster.store-silent", "cluster.no-controller"}
            assert missed.isdisjoint(explained()[1])
            for server in ensemble.servers:
                server.stop()

            def is_missed():
                code, kinds = explained()
                return code == 2 and kinds >= missed

            wait_for(is_missed, "the store and the controller to be missed")

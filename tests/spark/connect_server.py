"""A session on executors that are processes (local-cluster), which is a server of Spark Connect as well: `python -m
tests.spark.connect_server FOLDER BOOTSTRAP TOPIC REPLICAS`. It audits replicas, then runs `connect_client`."""

import subprocess
import sys

from pyspark import SparkConf
from pyspark.sql import SparkSession

from tests.ports import free_ports
from tests.spark.classes import CONNECT
from tests.spark.settings import SETTINGS
from tidelog.cli.main import run

WITHIN_S = 500


def main(folder: str, bootstrap: str, topic: str, replicas: str) -> None:
    (port,) = free_ports(1)
    chosen = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "512m", "spark.log.level": "ERROR"}
    settings = {**SETTINGS, **CONNECT, **chosen, "spark.connect.grpc.binding.port": str(port)}
    spark = SparkSession.builder.config(conf=SparkConf().setAll(settings.items())).getOrCreate()
    try:
        assert run(["audit", "--folder", replicas, "--json"]) == 0
        sys.stdout.flush()
        client = [
            sys.executable,
            "-m",
            "tests.spark.connect_client",
            f"sc://127.0.0.1:{port}",
            folder,
            bootstrap,
            topic,
        ]
        subprocess.run(client, check=True, timeout=WITHIN_S)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

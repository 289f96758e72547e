"""The folder of a checkpoint or of a table: of this machine, or of any file system that Spark reaches, as a URI
(`s3a://…`, `hdfs://…`). Small text files only; what tables consist of, Spark and delta-rs write."""

import re
import shutil
from pathlib import Path
from typing import Any, Protocol

from tidelog.spark.options import BadOption

_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*:")
UTF_8 = "UTF-8"
CONDITIONAL = "fs.option.create.conditional.overwrite"
"""Of Hadoop 3.4.2 and newer; other file systems ignore it."""


class Folder(Protocol):
    """Names are relative, with '/'. A file is there whole or not at all."""

    text: str
    """How Spark is given this folder."""

    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None: ...
    def create(self, name: str, text: str) -> bool:
        """Returns False, and writes nothing, if the file exists."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """What is in it; nothing if it does not exist."""
        ...

    def remove(self, name: str) -> None:
        """A file, or a folder with all that is in it; it need not exist."""
        ...


def is_uri(text: str) -> bool:
    """Whether a location is outside this machine's file system."""
    return _URI.match(text) is not None


def absolute(text: str) -> str:
    """A location that does not depend on the working directory."""
    return text if is_uri(text) else str(Path(re.sub("^file:(//)?", "", text)).absolute())


def below(location: str | Path, name: str) -> str:
    return f"{str(location).rstrip('/')}/{name}"


def folder_of(location: str | Path, spark: Any) -> Folder:
    """`spark` is needed for URIs only. BadOption if it cannot reach one."""
    text = absolute(str(location))
    if not is_uri(text):
        return LocalFolder(Path(text))
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise BadOption(f"{text} is not on this machine, which a session of Spark Connect cannot use here")
    return SparkFolder(text, spark)


def hadoop_settings(spark: Any) -> Any:
    """Hadoop's Configuration of a session, with what the session itself sets; None for one of Spark Connect."""
    session = getattr(spark, "_jsparkSession", None)
    return None if session is None else session.sessionState().newHadoopConf()


class LocalFolder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.text = str(path)

    def read(self, name: str) -> str | None:
        file = self._path / name
        return file.read_text(encoding=UTF_8) if file.exists() else None

    def write(self, name: str, text: str) -> None:
        self._part(name, text).rename(self._path / name)

    def create(self, name: str, text: str) -> bool:
        part = self._part(name, text)
        try:
            (self._path / name).hardlink_to(part)
        except FileExistsError:
            return False
        finally:
            part.unlink()
        return True

    def _part(self, name: str, text: str) -> Path:
        file = self._path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.part")
        part.write_text(text, encoding=UTF_8)
        return part

    def names(self, folder: str = "") -> list[str]:
        place = self._path / folder
        return sorted(each.name for each in place.iterdir()) if place.is_dir() else []

    def remove(self, name: str) -> None:
        place = self._path / name
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


class SparkFolder:
    """Through Hadoop's file systems in Spark's JVM: with the settings and the credentials that Spark itself uses."""

    def __init__(self, uri: str, spark: Any) -> None:
        self.text = uri
        self._jvm = spark._jvm  # noqa: SLF001  Python has no other way to Hadoop's file systems
        self._files = self._path("").getFileSystem(hadoop_settings(spark))

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(below(self.text, name) if name else self.text)

    def read(self, name: str) -> str | None:
        if not self._files.exists(self._path(name)):
            return None
        stream = self._files.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, UTF_8))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        self._fill(self._files.create(self._path(name), True), text)

    def create(self, name: str, text: str) -> bool:
        from py4j.protocol import Py4JJavaError

        # In an object store a file appears when it is closed; S3A then refuses it if there is one (`If-None-Match`).
        builder = self._files.createFile(self._path(name)).overwrite(False).recursive().opt(CONDITIONAL, "true")
        try:
            self._fill(builder.build(), text)
        except Py4JJavaError:
            if self._files.exists(self._path(name)):
                return False
            raise
        return True

    def _fill(self, stream: Any, text: str) -> None:
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def names(self, folder: str = "") -> list[str]:
        place = self._path(folder)
        return (
            sorted(each.getPath().getName() for each in self._files.listStatus(place))
            if self._files.exists(place)
            else []
        )

    def remove(self, name: str) -> None:
        self._files.delete(self._path(name), True)

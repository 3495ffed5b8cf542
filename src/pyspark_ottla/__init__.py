"""Ottla and Kafka topics in Spark: `spark.read.format("ottla")` and its three siblings.

Spark finds this module by its name (`pyspark_…`) and uses its `DefaultSource`: nothing has to be registered and no jar
be there. It is a client of the wire protocol and nothing else, and works with every cluster that speaks it. Here lives
what runs inside Spark's Python processes; the node is in `ottla`, of which only `protocol` and `errors` are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyspark_ottla.options import Options, OptionsError, SourceOptions

if TYPE_CHECKING:
    from pyspark_ottla.sink import BatchWriter, StreamWriter
    from pyspark_ottla.source import BatchReader, StreamReader
    from pyspark_ottla.values import TypedValues

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """What `format("ottla")` is. The parts are imported when they are needed: most processes need only one."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        from pyspark_ottla.values import ValueOptions, columns

        return columns(ValueOptions.parse(self.options), Options(self.options).flag("includeHeaders", False))

    def reader(self, schema: StructType) -> BatchReader:
        from pyspark_ottla.source import BatchReader

        return BatchReader(SourceOptions.parse(self.options, streaming=False), self._values(schema))

    def streamReader(self, schema: StructType) -> StreamReader:
        from pyspark_ottla.source import StreamReader

        return StreamReader(SourceOptions.parse(self.options, streaming=True), self._values(schema))

    def _values(self, schema: StructType) -> TypedValues | None:
        """What decodes values, if they are to be decoded."""
        from pyspark_ottla.values import BINARY, TypedValues, ValueOptions

        options = ValueOptions.parse(self.options)
        return None if options.format == BINARY else TypedValues(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from pyspark_ottla.sink import BatchWriter, SinkOptions

        if overwrite:
            raise OptionsError("a topic can't be overwritten: use mode append")
        return BatchWriter(SinkOptions.parse(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from pyspark_ottla.sink import SinkOptions, StreamWriter

        if overwrite:
            raise OptionsError("a topic can't be overwritten: use output mode append or update")
        return StreamWriter(SinkOptions.parse(self.options, schema)).plan()

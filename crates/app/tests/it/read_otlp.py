"""Reads OTLP's JSON with OpenTelemetry's own definitions and compares it with a report of the same source.

read_otlp.py OTLP REPORT
"""
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest



def parse(line, request):
    """The request in a line; a field that the definitions do not have is an error."""
    message = json_format.Parse(line, request)
    # It survives the wire.
    again = type(request)()
    again.ParseFromString(message.SerializeToString())
    assert again == message
    return message


def attributes(owner):
    return {it.key: it.value.string_value for it in owner.attributes}


def main():
    with open(sys.argv[1]) as exported:
        first, second = exported.read().splitlines()
    with open(sys.argv[2]) as report:
        report = json.load(report)
    metrics = parse(first, ExportMetricsServiceRequest())
    logs = parse(second, ExportLogsServiceRequest())

    [scope] = metrics.resource_metrics[0].scope_metrics
    by_name = {metric.name: metric for metric in scope.metrics}
    counted = {}
    for point in by_name["iowhy.device.requests"].sum.data_points:
        labels = attributes(point)
        assert point.start_time_unix_nano < point.time_unix_nano
        counted[labels["system.device"], labels["disk.io.direction"]] = point.as_int
    told = {
        (device["device"], way): figures["requests"]
        for device in report["devices"]
        for way, figures in device["directions"].items()
        if figures and figures["requests"]
    }
    assert counted == told, f"{counted} is not {told}"
    times = by_name["iowhy.device.request.time"].summary.data_points
    for point in times:
        values = [it.value for it in point.quantile_values]
        assert values == sorted(values) and point.sum >= values[-1], point
    busy = {attributes(it)["system.device"]: it.as_double for it in by_name["iowhy.device.busy"].gauge.data_points}
    assert all(0 <= share <= 1 for share in busy.values()), busy

    [scope] = logs.resource_logs[0].scope_logs
    found = [(attributes(it)["iowhy.cause"], it.body.string_value) for it in scope.log_records]
    expected = [(it["cause"], it["sentence"]) for it in report["findings"]]
    assert found == expected, f"{found} is not {expected}"
    print(f"equal: {len(counted)} counts, {len(times)} summaries, {len(found)} findings")


main()

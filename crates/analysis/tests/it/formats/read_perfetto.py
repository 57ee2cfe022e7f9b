"""Reads a trace with Perfetto's published definitions and checks what must hold for each track."""
import collections
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

trace = pb.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())


def unknown(message):
    """Fields that the published definitions do not have would be silently skipped."""
    assert message.SerializeToString() == type(message).FromString(message.SerializeToString()).SerializeToString()
    clean = type(message)()
    clean.CopyFrom(message)
    clean.DiscardUnknownFields()
    return clean.ByteSize() != message.ByteSize()


assert not unknown(trace)
first = trace.packet[0]
names = {word.iid: word.name for word in first.interned_data.event_names}
details = {word.iid: word.name for word in first.interned_data.debug_annotation_names}
assert first.trace_packet_defaults.timestamp_clock_id == 3
assert first.clock_snapshot.primary_trace_clock == 3
assert {clock.clock_id for clock in first.clock_snapshot.clocks} == {1, 3}
assert first.sequence_flags == 1

tracks, events = {}, []
for packet in trace.packet[1:]:
    assert packet.trusted_packet_sequence_id == 1
    if packet.HasField("track_descriptor"):
        assert packet.track_descriptor.uuid not in tracks
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
    else:
        assert packet.track_event.track_uuid in tracks
        events.append((packet.timestamp, packet.track_event))
events.sort(key=lambda event: event[0])  # stable, as the trace processor sorts

queues = {uuid for uuid, track in tracks.items() if track.name.endswith(" queue")}
assert {tracks[uuid].name for uuid in queues} == {"sda queue", "sdb queue"}
lanes = {uuid for uuid, track in tracks.items() if track.parent_uuid in queues}
assert len(lanes) >= 3, "requests overlap"
assert {track.process.process_name for track in tracks.values() if track.HasField("process")} == {"dd", "cat"}
assert {track.thread.tid for track in tracks.values() if track.HasField("thread")} == {7, 8}

open_slices = collections.defaultdict(list)
counts = collections.Counter()
flows = collections.defaultdict(list)
for time, event in events:
    stack = open_slices[event.track_uuid]
    if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
        stack.append(time)
        name = names[event.name_iid]
        if len(stack) == 1:
            counts[name] += 1
            fields = {details[a.name_iid]: a for a in event.debug_annotations}
            assert {"sector", "bytes", "rwbs", "origin"} <= set(fields)
            if "file" in fields:
                assert fields["file"].string_value == '/srv/a;b "c"'
            if "error" in fields:
                assert fields["error"].int_value == -5
                counts["error"] += 1
            if "censored" in fields:
                counts["censored"] += 1
        assert len(stack) <= 2, "a lane's requests do not overlap"
    elif event.type == pb.TrackEvent.TYPE_SLICE_END:
        assert stack.pop() <= time
    else:
        counts[names[event.name_iid]] += 1
    for flow in event.flow_ids:
        flows[flow].append(("step", event.track_uuid))
    for flow in event.terminating_flow_ids:
        flows[flow].append(("end", event.track_uuid))

assert counts["read"] == 133 + 2 and counts["write"] == 67 and counts["flush"] == 1, counts
assert counts["completed"] == 202 and counts["error"] == 1 and counts["censored"] == 1, counts
assert counts["queued"] == 201, counts
assert sum(len(stack) for stack in open_slices.values()) == 1, "only the open request has no end"
assert len(flows) == 203
full = [flow for flow in flows.values() if len(flow) == 4]
assert len(full) == 200, "thread, request, device, completion"
for flow in full:
    assert [kind for kind, _ in flow] == ["step", "step", "step", "end"]
    assert tracks[flow[0][1]].HasField("thread") and flow[-1][1] in lanes

// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Every single block event as in blktrace, for recordings made with --events. Events are not paired
 * here; user space adds the categories that follow from an operation's flags.
 */
#include "emit.bpf.h"
#include "watched_devices.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} sequences SEC(".maps");

/* Fills in the common fields of all events; returns false if the device is not watched. */
static __always_inline bool begin(struct wire_event *event, u32 device, u32 action)
{
	u32 zero = 0;
	u64 *sequence;

	event->device = device;
	if (!is_watched(event->device))
		return false;
	sequence = bpf_map_lookup_elem(&sequences, &zero);
	if (!sequence)
		return false;
	/* Incremented before sending, so that a lost event leaves a gap. */
	event->sequence = next_number(sequence);
	event->kind = WIRE_EVENT;
	event->action = action;
	event->time_ns = bpf_ktime_get_ns();
	event->tid = bpf_get_current_pid_tgid();
	event->cpu = bpf_get_smp_processor_id();
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	return true;
}

static __always_inline int send(struct wire_event *event)
{
	emit(event, sizeof(*event), COUNT_RING_FULL_EVENT);
	return 0;
}

static __always_inline int send_bio(struct bio *bio, u32 action, u64 payload)
{
	struct wire_event event = {};

	if (!begin(&event, device_of(bio_disk(bio)), action))
		return 0;
	event.sector = bio->bi_iter.bi_sector;
	event.bytes = bio->bi_iter.bi_size;
	event.operation = bio->bi_opf;
	event.payload = payload;
	event.error = bio->bi_status;
	return send(&event);
}

static __always_inline int send_request(struct request *rq, u32 action, u32 bytes, int error)
{
	struct wire_event event = {};

	if (!begin(&event, device_of(request_disk(rq)), action))
		return 0;
	event.sector = is_passthrough(rq->cmd_flags) || rq->__sector == ~0ULL ? 0 : rq->__sector;
	event.bytes = bytes;
	event.operation = rq->cmd_flags;
	event.error = error;
	return send(&event);
}

SEC("tp_btf/block_bio_queue")
UNDISTURBED(event_queue)
{
	return send_bio(bio_argument(ctx), EVENT_QUEUE, 0);
}

SEC("tp_btf/block_bio_backmerge")
UNDISTURBED(event_backmerge)
{
	return send_bio(merged_bio_argument(ctx), EVENT_BACKMERGE, 0);
}

SEC("tp_btf/block_bio_frontmerge")
UNDISTURBED(event_frontmerge)
{
	return send_bio(merged_bio_argument(ctx), EVENT_FRONTMERGE, 0);
}

SEC("tp_btf/block_getrq")
UNDISTURBED(event_get)
{
	return send_bio(bio_argument(ctx), EVENT_GETRQ, 0);
}

SEC("tp_btf/block_split")
UNDISTURBED(event_split)
{
	return send_bio(bio_argument(ctx), EVENT_SPLIT, (u32)BIO_ARGUMENT(ctx, 1));
}

SEC("tp_btf/block_bio_remap")
UNDISTURBED(event_remap)
{
	struct bio *bio = bio_argument(ctx);
	struct wire_event event = {};

	if (!begin(&event, device_of(bio_disk(bio)), EVENT_REMAP))
		return 0;
	event.sector = bio->bi_iter.bi_sector;
	event.bytes = bio->bi_iter.bi_size;
	event.operation = bio->bi_opf;
	event.payload_device = BIO_ARGUMENT(ctx, 1);
	event.payload = BIO_ARGUMENT(ctx, 2);
	return send(&event);
}

SEC("tp_btf/block_bio_complete")
UNDISTURBED(event_bio_complete)
{
	return send_bio((struct bio *)ctx[1], EVENT_COMPLETE, 0);
}

SEC("tp_btf/block_rq_merge")
UNDISTURBED(event_merge)
{
	struct request *rq = request_argument(ctx);

	return send_request(rq, EVENT_BACKMERGE, rq->__data_len, 0);
}

SEC("tp_btf/block_rq_insert")
UNDISTURBED(event_insert)
{
	struct request *rq = request_argument(ctx);

	return send_request(rq, EVENT_INSERT, rq->__data_len, 0);
}

SEC("tp_btf/block_rq_issue")
UNDISTURBED(event_issue)
{
	struct request *rq = request_argument(ctx);

	return send_request(rq, EVENT_ISSUE, rq->__data_len, 0);
}

SEC("tp_btf/block_rq_requeue")
UNDISTURBED(event_requeue)
{
	struct request *rq = request_argument(ctx);

	return send_request(rq, EVENT_REQUEUE, rq->__data_len, 0);
}

SEC("tp_btf/block_rq_complete")
UNDISTURBED(event_complete)
{
	return send_request(request_argument(ctx), EVENT_COMPLETE, RQ_ARGUMENT(ctx, 2),
			    RQ_ARGUMENT(ctx, 1));
}

SEC("tp_btf/block_plug")
UNDISTURBED(event_plug)
{
	struct request_queue *q = (struct request_queue *)ctx[0];
	struct wire_event event = {};

	if (!begin(&event, queue_device(q), EVENT_PLUG))
		return 0;
	return send(&event);
}

SEC("tp_btf/block_unplug")
UNDISTURBED(event_unplug)
{
	struct request_queue *q = (struct request_queue *)ctx[0];
	u32 depth = ctx[1];
	struct wire_event event = {};

	if (!begin(&event, queue_device(q), ctx[2] & 1 ? EVENT_UNPLUG_IO : EVENT_UNPLUG_TIMER))
		return 0;
	event.payload = depth;
	return send(&event);
}

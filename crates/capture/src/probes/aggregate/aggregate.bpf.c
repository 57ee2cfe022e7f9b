// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Exact counts of everything that completes, per disk and operation. They cost a few tens of
 * nanoseconds per request, need no record in the ring buffer, and stay complete while other programs
 * sample. Times are those that the kernel keeps itself in a request.
 *
 * Records of single requests do not belong here (see block.bpf.c).
 */
#include "watched_devices.bpf.h"

#define MAX_TOTALS 128

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MAX_TOTALS);
	__type(key, struct wire_total_key);
	__type(value, struct wire_total);
} totals SEC(".maps");

/* An entry to begin with: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_total);
} blank_total SEC(".maps");

/* New keys are rare. If the table is full, the entry of key 0 holds all others. */
static __noinline struct wire_total *new_total(struct wire_total_key *key)
{
	struct wire_total_key others = { .operation = key->operation };
	struct wire_total *blank;
	u32 zero = 0;

	blank = bpf_map_lookup_elem(&blank_total, &zero);
	if (!blank)
		return NULL;
	bpf_map_update_elem(&totals, key, blank, BPF_NOEXIST);
	return bpf_map_lookup_elem(&totals, key) ?: bpf_map_lookup_elem(&totals, &others);
}

static __always_inline struct wire_total *total_of(u32 device, u32 operation)
{
	struct wire_total_key key = { .device = device, .operation = operation & 0xff };

	return bpf_map_lookup_elem(&totals, &key) ?: new_total(&key);
}

/* The highest bit that is set; `value` is not 0. */
static __always_inline u32 log2_of(u64 value)
{
	u32 bits = 0;

	if (value >> 32) {
		value >>= 32;
		bits += 32;
	}
	if (value >> 16) {
		value >>= 16;
		bits += 16;
	}
	if (value >> 8) {
		value >>= 8;
		bits += 8;
	}
	if (value >> 4) {
		value >>= 4;
		bits += 4;
	}
	if (value >> 2) {
		value >>= 2;
		bits += 2;
	}
	return bits + (value >> 1);
}

static __always_inline u64 bucket_of(u64 ns)
{
	u64 bucket;
	u32 high;

	if (!(ns >> LATENCY_FLOOR_BITS))
		return 0;
	high = log2_of(ns);
	bucket = ((u64)(high - LATENCY_FLOOR_BITS) << LATENCY_STEP_BITS) +
		 ((ns >> (high - LATENCY_STEP_BITS)) & ((1 << LATENCY_STEP_BITS) - 1)) + 1;
	/* Else the compiler checks a part of the sum, which older verifiers do not follow. */
	barrier_var(bucket);
	return bucket < WIRE_LATENCIES ? bucket : WIRE_LATENCIES - 1;
}

/* Not atomic: each program runs at most once at a time on a CPU, and has entries of its own CPU. */
static __always_inline void count_latency(struct wire_total *total, u64 ns)
{
	total->timed += 1;
	total->latency_ns += ns;
	if (ns > total->latency_max_ns)
		total->latency_max_ns = ns;
	total->latencies[bucket_of(ns)] += 1;
}

static __always_inline void count_device_time(struct wire_total *total, u64 ns)
{
	total->issued += 1;
	total->device_ns += ns;
	if (ns > total->device_max_ns)
		total->device_max_ns = ns;
	total->device_times[bucket_of(ns)] += 1;
}

SEC("tp_btf/block_rq_complete")
UNDISTURBED(count_completion)
{
	struct request *rq = request_argument(ctx);
	int status = RQ_ARGUMENT(ctx, 1);
	u32 done = RQ_ARGUMENT(ctx, 2);
	u32 device = device_of(request_disk(rq));
	struct bio *bio = POINTER(rq, bio);
	u64 now, began, issued;
	u32 operation = rq->cmd_flags;
	struct wire_total *total;

	/*
	 * The end of a part, which the end of the rest follows; or the second end of a request of
	 * the flush machinery, whose data was counted when it ended.
	 */
	if (!is_watched(device) || (bio && (!done || done < rq->__data_len)))
		return 0;
	total = total_of(device, operation);
	if (!total)
		return 0;
	began = rq->start_time_ns;
	issued = rq->io_start_time_ns;
	now = bpf_ktime_get_ns();
	total->requests += 1;
	total->bytes += done;
	total->errors += status != 0;
	if (began && began < now)
		count_latency(total, now - began);
	if (issued && issued < now)
		count_device_time(total, now - issued);
	return 0;
}

/* Only bios without a request complete here: those of bio-based devices. */
SEC("tp_btf/block_bio_complete")
UNDISTURBED(count_bio_completion)
{
	struct bio *bio = (struct bio *)ctx[1];
	u32 device = device_of(bio_disk(bio));
	u32 bytes = bio->bi_iter.bi_size, operation = bio->bi_opf;
	struct wire_total *total;
	u64 began, now;

	if (!is_watched(device))
		return 0;
	total = total_of(device, operation);
	if (!total)
		return 0;
	total->requests += 1;
	total->bytes += bytes;
	total->errors += bio->bi_status != 0;
	if (bpf_core_field_exists(bio->issue_time_ns)) {
		began = bio->issue_time_ns;
		now = bpf_ktime_get_ns();
		if (began && began < now)
			count_latency(total, now - began);
	}
	return 0;
}

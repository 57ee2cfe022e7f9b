/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Exact counts of everything that completes, per disk and operation. They cost a few tens of
 * nanoseconds per request, need no record in the ring buffer, and stay complete while other
 * programs sample. Times are those that the kernel keeps itself in a request.
 *
 * What does not belong here: records of single requests (see request_bios.bpf.h).
 */
#ifndef IOWHY_TOTALS_H
#define IOWHY_TOTALS_H

#include "watched_devices.bpf.h"

#define MAX_TOTALS 128

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MAX_TOTALS);
	__type(key, struct wire_total_key);
	__type(value, struct wire_total);
} totals SEC(".maps");

/*
 * The disks and operations that each CPU counted first, by place: a look at an array costs a third
 * of a search in the hash map.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WIRE_COMMON_TOTALS);
	__type(key, u32);
	__type(value, struct wire_common_total);
} common_totals SEC(".maps");

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

/*
 * The same of a request. Whatever came first on a CPU keeps its place; what falls on a place that
 * is taken goes to the hash map. Only one program of a watch calls this, so that no place is taken
 * twice.
 */
static __always_inline struct wire_total *total_of_requests(u32 device, u32 operation)
{
	u32 place = (device ^ device >> 20 ^ operation << 2) & (WIRE_COMMON_TOTALS - 1);
	struct wire_common_total *common = bpf_map_lookup_elem(&common_totals, &place);

	if (!common)
		return NULL;
	operation &= 0xff;
	if (!common->is_taken) {
		common->key.device = device;
		common->key.operation = operation;
		common->is_taken = 1;
	}
	if (common->key.device == device && common->key.operation == operation)
		return &common->total;
	return total_of(device, operation);
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

/* Counts a request of which `done` bytes complete; nothing if more of it follows. */
static __always_inline void count_request(struct request *rq, u32 device, int status, u32 done,
					  u64 now)
{
	struct bio *bio = POINTER(rq, bio);
	u64 began = rq->start_time_ns, issued = rq->io_start_time_ns;
	struct wire_total *total;

	/*
	 * The end of a part, which the end of the rest follows; or the second end of a request of
	 * the flush machinery, whose data was counted when it ended.
	 */
	if (!is_watched(device) || (bio && (!done || done < rq->__data_len)))
		return;
	total = total_of_requests(device, rq->cmd_flags);
	if (!total)
		return;
	total->requests += 1;
	total->bytes += done;
	total->errors += status != 0;
	if (began && began < now)
		count_latency(total, now - began);
	if (issued && issued < now)
		count_device_time(total, now - issued);
}

#endif

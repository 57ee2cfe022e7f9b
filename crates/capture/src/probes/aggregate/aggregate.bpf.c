// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Exact counts of everything that completes, per disk and operation, per cgroup and per process.
 * They cost a few tens of nanoseconds per request, need no record in the ring buffer, and stay
 * complete while other programs sample. Times are those that the kernel keeps itself in a request.
 *
 * Records of single requests do not belong here (see block.bpf.c).
 */
#include "watched_devices.bpf.h"

#define MAX_TOTALS 128
#define MAX_OWNERS 1024

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

#define OWNER_MAP(name)                                 \
	struct {                                        \
		__uint(type, BPF_MAP_TYPE_PERCPU_HASH); \
		__uint(max_entries, MAX_OWNERS);        \
		__type(key, u64);                       \
		__type(value, struct wire_owner_total); \
	} name SEC(".maps")

OWNER_MAP(cgroup_totals);
OWNER_MAP(process_totals);

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

static __noinline struct wire_owner_total *new_owner(void *map, u64 key)
{
	struct wire_owner_total blank = {};
	u64 others = 0;

	bpf_map_update_elem(map, &key, &blank, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, &key) ?: bpf_map_lookup_elem(map, &others);
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

/* Reads, writes (also zone appends), and all others. */
static __always_inline u32 direction_of(u32 operation)
{
	operation &= 0xff;
	return operation == 7 ? 1 : operation < 2 ? operation : 2;
}

static __always_inline void count_owner(void *map, u64 key, u32 operation, u32 bytes, u64 ns)
{
	struct wire_owner_total *owner = bpf_map_lookup_elem(map, &key) ?: new_owner(map, key);
	u32 direction = direction_of(operation);

	if (!owner)
		return;
	if (direction == 0) {
		owner->requests[0] += 1;
		owner->bytes[0] += bytes;
		owner->latency_ns[0] += ns;
	} else if (direction == 1) {
		owner->requests[1] += 1;
		owner->bytes[1] += bytes;
		owner->latency_ns[1] += ns;
	} else {
		owner->requests[2] += 1;
		owner->bytes[2] += bytes;
		owner->latency_ns[2] += ns;
	}
}

static __always_inline u64 cgroup_of(struct bio *bio)
{
	struct blkcg_gq *group;

	if (!bio || !bpf_core_field_exists(bio->bi_blkg))
		return 0;
	group = READ(bio, bi_blkg);
	return group ? READ(READ(READ(READ(group, blkcg), css.cgroup), kn), id) : 0;
}

SEC("tp_btf/block_rq_complete")
UNDISTURBED(count_completion)
{
	struct request *rq = request_argument(ctx);
	int status = RQ_ARGUMENT(ctx, 1);
	u32 done = RQ_ARGUMENT(ctx, 2);
	u32 device = device_of(request_disk(rq));
	struct bio *bio = POINTER(rq, bio);
	u64 now, began, issued, ns = 0;
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
	if (began && began < now) {
		ns = now - began;
		count_latency(total, ns);
	}
	if (issued && issued < now)
		count_device_time(total, now - issued);
	count_owner(&cgroup_totals, cgroup_of(bio), operation, done, ns);
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
	u64 began, now, ns = 0;

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
		if (began && began < now) {
			ns = now - began;
			count_latency(total, ns);
		}
	}
	count_owner(&cgroup_totals, cgroup_of(bio), operation, bytes, ns);
	return 0;
}

/* A completion no longer has its submitter: processes are counted when they queue. */
SEC("tp_btf/block_bio_queue")
UNDISTURBED(count_submission)
{
	struct bio *bio = bio_argument(ctx);

	if (!is_watched(device_of(bio_disk(bio))))
		return 0;
	count_owner(&process_totals, bpf_get_current_pid_tgid() >> 32, bio->bi_opf,
		    bio->bi_iter.bi_size, 0);
	return 0;
}

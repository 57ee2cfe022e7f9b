/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Which requests are recorded while recording all would cost more than the budget. Recorded are all
 * that a CPU queues in one of several windows of a jiffy, so that neighbours stay together: bios
 * that are merged, sequential ones, those that wait for each other. Which windows these are is
 * decided by hashes of the jiffy and the CPU. A recorded request carries how many it stands for.
 *
 * Of the others a few words are kept until they complete: those that turn out to be slow are
 * recorded after all, and stand for themselves only.
 *
 * What does not belong here: how many are recorded, which user space decides.
 */
#ifndef IOWHY_THINNING_H
#define IOWHY_THINNING_H

#include "emit.bpf.h"

/* So long after one was skipped, a request that is not known has another reason. */
#define LATE_NS 10000000000ULL
/* Choices of one window in so many: more than 1 of 64 times the 256 of a full ring buffer. */
#define WINDOW_ROUNDS 16

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_thinning);
} thinning SEC(".maps");

/* From when until when requests were skipped, roughly; user space leaves it alone. */
struct skipped_span {
	u64 first_ns;
	u64 latest_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct skipped_span);
} skipped_span SEC(".maps");

struct skipped_slots {
	struct wire_skipped of[WIRE_SKIPPED];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct skipped_slots);
} skipped SEC(".maps");

/* NULL if every request is recorded: then nothing was ever skipped. */
static __always_inline struct wire_thinning *thinning_now(void)
{
	u32 zero = 0;
	struct wire_thinning *now = bpf_map_lookup_elem(&thinning, &zero);

	return now && now->adaptive ? now : NULL;
}

static __always_inline struct skipped_span *span_of_skipped(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&skipped_span, &zero);
}

static __always_inline struct wire_skipped *skipped_slot(u64 bio)
{
	u32 zero = 0;
	struct skipped_slots *all = bpf_map_lookup_elem(&skipped, &zero);

	if (!all)
		return NULL;
	/* Else the compiler adds the offset first, which older verifiers refuse. */
	barrier_var(all);
	return &all->of[((bio * 0x9e3779b97f4a7c15ULL) >> 40) & (WIRE_SKIPPED - 1)];
}

static __always_inline struct wire_skipped *find_skipped(u64 bio)
{
	struct wire_skipped *slot = skipped_slot(bio);

	return slot && slot->bio == bio ? slot : NULL;
}

/* Cheaper than to search the table of those that are recorded, and not to find it. */
static __always_inline bool is_known_skipped(u64 bio)
{
	return thinning_now() && find_skipped(bio);
}

/*
 * Frees the slot of a bio that is recorded now, or that completes without a request. The slots of
 * bios that were merged are not freed when their request completes.
 */
static __always_inline void forget_skipped(u64 bio)
{
	struct wire_skipped *slot = thinning_now() ? find_skipped(bio) : NULL;

	if (slot)
		slot->bio = 0;
}

/* Whether the request that is issued is known to be skipped. */
static __always_inline bool issue_skipped(u64 bio, u64 time)
{
	struct wire_skipped *slot = thinning_now() ? find_skipped(bio) : NULL;

	if (slot)
		slot->issue_ns = time;
	return slot;
}

/*
 * One in `one_in`, and fewer while the ring buffer fills up, because its reader is waiting for a
 * CPU. Powers of two, so that what is recorded at a lower rate is part of what is recorded at a
 * higher one.
 */
static __always_inline u32 rarer(u32 one_in)
{
	u64 waiting = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);

	if (waiting > settings.ring_bytes / 8 * 7)
		return one_in << 8;
	if (waiting > settings.ring_bytes / 4 * 3)
		return one_in << 5;
	if (waiting > settings.ring_bytes / 2)
		return one_in << 2;
	return one_in;
}

/* One in how many requests is recorded. */
static __always_inline u32 one_in_now(struct wire_thinning *now)
{
	return rarer(now->one_in);
}

/*
 * Of each pair of consecutive jiffies one is chosen, of each pair of chosen ones one again, and so
 * on: each window is equally likely, a CPU is never without one for longer than two rounds, and
 * what is recorded at a lower rate is part of what is recorded at a higher one. Each choice is a bit
 * of a hash of the pair, so that no period of a load falls in step with it.
 */
static __always_inline bool is_recorded_window(u32 one_in, u32 cpu)
{
	u64 jiffy = bpf_jiffies64();
	u32 round;

	for (round = 0; round < WINDOW_ROUNDS && (1U << round) < one_in; round++) {
		u64 hash = ((jiffy >> (round + 1)) * 4096 + cpu) + ((u64)round << 58);

		hash *= 0xff51afd7ed558ccdULL;
		hash ^= hash >> 33;
		hash *= 0xc4ceb9fe1a85ec53ULL;
		if (((jiffy >> round) ^ (hash >> 63)) & 1)
			return false;
	}
	return true;
}

/* One in how many waits is recorded; they are chosen in the same windows, and as the ring fills. */
static __always_inline u32 waits_one_in(void)
{
	struct wire_thinning *now = thinning_now();

	return now ? rarer(now->waits_one_in) : 0;
}

static __always_inline bool are_waits_thinned(void)
{
	struct wire_thinning *now = thinning_now();

	return now && now->waits_one_in > 1;
}

/* Keeps the few words of a bio that is not recorded, which is about to be queued. */
static __always_inline void skip(struct bio *bio, u32 device, u32 cpu)
{
	struct wire_skipped *slot = skipped_slot(number_of(bio));
	struct skipped_span *span = span_of_skipped();
	u64 time = bpf_ktime_get_ns();

	if (!slot || !span)
		return;
	if (!span->first_ns)
		span->first_ns = time;
	/* Written rarely: all CPUs read it. */
	if (time - span->latest_ns > 1000000)
		span->latest_ns = time;
	slot->bio = number_of(bio);
	slot->queue_ns = time;
	slot->issue_ns = 0;
	slot->pid_tgid = bpf_get_current_pid_tgid();
	slot->sector = bio->bi_iter.bi_sector;
	slot->bytes = bio->bi_iter.bi_size;
	slot->device = device;
	slot->operation = bio->bi_opf;
	slot->cpu = cpu;
}

/*
 * Whether a request without a record was skipped, and not queued before the watch or missed. The
 * words of one whose slot another bio took are lost, and the time of its start has to do.
 */
static __always_inline bool is_skipped(struct request *rq, u64 time)
{
	struct skipped_span *span = span_of_skipped();
	u64 begun = READ(rq, start_time_ns), bio = number_of(READ(rq, bio));

	if (!thinning_now() || !span || !span->first_ns || !bio)
		return false;
	return find_skipped(bio) || (begun >= span->first_ns && time - span->latest_ns < LATE_NS);
}

/* Of a skipped request the time since it was queued; frees its slot. */
static __always_inline u64 end_skipped(struct request *rq, struct wire_skipped *copy, u64 time)
{
	u64 bio = number_of(READ(rq, bio));
	struct wire_skipped *slot = find_skipped(bio);

	if (slot) {
		*copy = *slot;
		slot->bio = 0;
	} else {
		copy->queue_ns = READ(rq, start_time_ns);
	}
	return copy->queue_ns && copy->queue_ns < time ? time - copy->queue_ns : 0;
}

#endif

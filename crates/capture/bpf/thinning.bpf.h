/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Which requests are recorded while recording all would cost more than the budget. Recorded are all
 * that a CPU queues in one of several windows of a jiffy, so that neighbours stay together: bios
 * that are merged, sequential ones, those that wait for each other. Which windows these are is
 * decided by hashes of the jiffy and the CPU. A recorded request carries how many it stands for.
 *
 * Of the others a few words are kept until they complete: those that turn out to be slow are
 * recorded after all, and stand for themselves only. On disks on which the programs rest, because
 * even this costs more than the budget, nothing is kept of them: slow ones are recorded from what
 * the kernel has in the request.
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

/*
 * The kernel reads the clock once for all requests of a plug: one may have begun by so much before
 * it was queued.
 */
#define PLUGGED_NS 1000000ULL

/* From when until when requests were skipped, roughly; user space leaves it alone. */
struct skipped_span {
	u64 first_ns;
	u64 latest_ns;
	u64 latest_jiffy;
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
	struct wire_thinning *thin = thinning_now();

	if (!thin || !slot || slot->bio != bio)
		return NULL;
	/* Left over from before the bio's memory was used for a disk of which nothing is kept. */
	return slot->queue_ns < thin->kept_from_ns ? NULL : slot;
}

/*
 * Frees the slot of a bio that is recorded now, or that completes without a request. The slots of
 * bios that were merged are not freed when their request completes.
 */
static __always_inline void forget_skipped(u64 bio)
{
	struct wire_skipped *slot = find_skipped(bio);

	if (slot)
		slot->bio = 0;
}

/* Whether the request that is issued is known to be skipped. */
static __always_inline bool issue_skipped(u64 bio, u64 time)
{
	struct wire_skipped *slot = find_skipped(bio);

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

/*
 * Of each pair of consecutive jiffies one is chosen, of each pair of chosen ones one again, and so
 * on: each window is equally likely, a CPU is never without one for longer than two rounds, and
 * what is recorded at a lower rate is part of what is recorded at a higher one. Each choice is a bit
 * of a hash of the pair, so that no period of a load falls in step with it.
 *
 * A global function, which the verifier checks once and not for each way that leads to it.
 */
__noinline int is_recorded_window(u32 one_in, u32 cpu)
{
	u64 jiffy = bpf_jiffies64();
	u32 round;

	for (round = 0; round < WINDOW_ROUNDS && (1U << round) < one_in; round++) {
		u64 hash = ((jiffy >> (round + 1)) * 4096 + cpu) + ((u64)round << 58);

		hash *= 0xff51afd7ed558ccdULL;
		hash ^= hash >> 33;
		hash *= 0xc4ceb9fe1a85ec53ULL;
		if (((jiffy >> round) ^ (hash >> 63)) & 1)
			return 0;
	}
	return 1;
}

/*
 * How many a request or wait stands for that begins now, of which one in `one_in` is recorded; 0 if
 * it is not. Most are not, so that the ring buffer is asked last.
 */
static __always_inline u32 weight_now(u32 one_in)
{
	u32 cpu = bpf_get_smp_processor_id(), weight;

	if (one_in > 1 && !is_recorded_window(one_in, cpu))
		return 0;
	weight = rarer(one_in);
	return weight == one_in || is_recorded_window(weight, cpu) ? weight : 0;
}

static __always_inline bool are_waits_thinned(void)
{
	struct wire_thinning *now = thinning_now();

	return now && now->waits_one_in > 1;
}

/* Whether nothing is kept of requests to a disk that are not recorded. */
static __always_inline bool rests_on(struct wire_thinning *now, u32 device)
{
	u32 i;

	if (!now || !now->resting[0])
		return false;
	for (i = 0; i < WIRE_RESTING_DISKS; i++)
		if (now->resting[i] == device)
			return true;
	return false;
}

/* Notes that requests are skipped of which nothing is kept. */
static __always_inline void note_resting(void)
{
	struct skipped_span *span = span_of_skipped();
	u64 jiffy = bpf_jiffies64();

	/* Written rarely: all CPUs read it. */
	if (!span || span->latest_jiffy == jiffy)
		return;
	span->latest_jiffy = jiffy;
	span->latest_ns = bpf_ktime_get_ns();
	if (!span->first_ns)
		span->first_ns = span->latest_ns;
}

/* Keeps the few words of a bio that is not recorded, which is about to be queued. */
static __always_inline void skip(struct bio *bio, u32 device)
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
	slot->cpu = bpf_get_smp_processor_id();
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
	if (find_skipped(bio))
		return true;
	/* A disk without statistics has no start: who asks then must have been skipped. */
	return (!begun || begun + PLUGGED_NS >= span->first_ns) && time - span->latest_ns < LATE_NS;
}

/*
 * Of a skipped request the time since it was queued; frees its slot, which it has unless programs
 * rest on its disk.
 */
static __always_inline u64 end_skipped(struct request *rq, bool rests, struct wire_skipped *copy,
				       u64 time)
{
	u64 bio = number_of(READ(rq, bio));
	struct wire_skipped *slot = rests ? NULL : find_skipped(bio);

	if (slot) {
		*copy = *slot;
		slot->bio = 0;
	} else {
		copy->queue_ns = READ(rq, start_time_ns);
	}
	return copy->queue_ns && copy->queue_ns < time ? time - copy->queue_ns : 0;
}

#endif

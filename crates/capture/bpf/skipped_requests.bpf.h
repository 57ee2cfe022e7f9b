/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Requests that were not chosen to be recorded (see thinning.bpf.h), and complete.
 */
#ifndef IOWHY_SKIPPED_REQUESTS_H
#define IOWHY_SKIPPED_REQUESTS_H

#include "request_bios.bpf.h"
#include "submitters.bpf.h"

static __always_inline void note_cgroup(struct bio *bio, struct wire_request *r)
{
	struct blkcg_gq *group;
	struct kernfs_node *kn;

	if (!bpf_core_field_exists(bio->bi_blkg))
		return;
	group = POINTER(bio, bi_blkg);
	if (!group)
		return;
	kn = POINTER(POINTER(POINTER(group, blkcg), css.cgroup), kn);
	r->cgroup = POINTER(kn, id);
	see_cgroup(number_of(kn), r->cgroup, room_level(r));
}

/* Whether a request that was skipped has completed whole, and fast: nothing is recorded of it. */
static __always_inline bool end_fast_skipped(struct request *rq, u32 done, u64 now)
{
	struct bio *bio = READ(rq, bio);
	struct wire_thinning *thin = thinning_now();
	struct wire_skipped *slot = thin && bio ? find_skipped(number_of(bio)) : NULL;

	if (!slot || done < READ(rq, __data_len) || READ(bio, bi_next) ||
	    now - slot->queue_ns >= thin->slow_ns)
		return false;
	slot->bio = 0;
	note_ended(0, now);
	return true;
}

/*
 * Whether a request completes whole of which nothing is kept, and fast, as far as the kernel's own
 * time of its start tells.
 */
static __always_inline bool ends_unseen(struct request *rq, u32 device, u32 done, u64 now)
{
	struct wire_thinning *thin = thinning_now();
	struct bio *bio = READ(rq, bio);
	u64 began;

	if (!rests_on(thin, device) || !bio || may_be_tracked(number_of(bio)) ||
	    is_any_handed_on() || done < READ(rq, __data_len) || READ(bio, bi_next))
		return false;
	began = READ(rq, start_time_ns);
	if (began && began < now && now - began >= thin->slow_ns)
		return false;
	note_ended(0, now);
	return true;
}

/* A slow request that was skipped: what is known of it still. */
static __noinline int record_skipped(struct request *rq, u32 device, int status, u64 now)
{
	/* Not on the stack, which has 512 bytes for the whole call chain. */
	union room *room = room_of(ROOM_OWNERS);
	struct wire_thinning *thin = thinning_now();
	struct wire_skipped *was;
	struct wire_request *r;
	struct bio *bio;
	u64 took;

	if (!room)
		return 0;
	was = &room->skipped;
	__builtin_memset(was, 0, sizeof(*was));
	took = end_skipped(rq, rests_on(thin, device), was, now);
	bio = POINTER(rq, bio);
	if (READ(bio, bi_next))
		forget_merged(number_of(bio));
	if (!thin || took < thin->slow_ns || !is_watched(device)) {
		note_ended(0, now);
		return 0;
	}
	r = begin_late(rq, device, now);
	if (!r)
		return 0;
	r->flags = REQUEST_SLOW;
	r->weight = 1;
	r->queue_ns = was->queue_ns;
	r->get_ns = READ(rq, start_time_ns);
	if (r->get_ns < r->queue_ns)
		r->get_ns = 0;
	r->issue_ns = was->issue_ns ?: READ(rq, io_start_time_ns);
	if (r->issue_ns < r->queue_ns)
		r->issue_ns = 0;
	r->tgid = was->pid_tgid >> 32;
	r->tid = was->pid_tgid;
	if (was->bio)
		r->cpu = was->cpu;
	/* The file is not looked up: that needs more stack than older kernels have left here. */
	r->part.found = FOUND_NOT;
	note_cgroup(bio, r);
	r->status = status;
	r->complete_ns = now;
	finish(r, key_of(rq));
	return 0;
}

#endif

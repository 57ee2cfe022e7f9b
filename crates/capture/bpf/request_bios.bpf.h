/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * From a request to its bios: the requests in flight, how a request takes over the state of its
 * bios, and how it ends.
 *
 * What does not belong here: how it is sent with the files of all of its bios (see
 * request_parts.bpf.h).
 */
#ifndef IOWHY_REQUEST_BIOS_H
#define IOWHY_REQUEST_BIOS_H

#include "handed_on_bios.bpf.h"
#include "request_parts.bpf.h"
#include "emit.bpf.h"
#include "owners.bpf.h"
#include "in_flight.bpf.h"
#include "watched_devices.bpf.h"
#include "file_of_bio.bpf.h"
#include "thinning.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} ids SEC(".maps");

/* The last flush that was issued to a device: requests that only need a flush share it. */
struct flush {
	u64 issue_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct flush);
} flushes SEC(".maps");

/* Returns an id that is unique across CPUs: the low bits are the CPU's. */
static __always_inline u64 next_id(u32 cpu)
{
	u32 zero = 0;
	u64 *last = bpf_map_lookup_elem(&ids, &zero);

	if (!last)
		return 0;
	return next_number(last) << 10 | (cpu & 0x3ff);
}

/* Reads, writes and zone appends carry pages; flushes, discards and zeroing do not. */
static __always_inline bool has_pages(u32 operation)
{
	operation &= 0xff;
	return operation == 0 || operation == 1 || operation == 7;
}

static __always_inline u64 key_of(struct request *rq)
{
	struct bio *bio = READ(rq, bio);

	return bio ? number_of(bio) : number_of(rq);
}

static __always_inline struct wire_request *pending_request(struct request *rq)
{
	return find_request(key_of(rq));
}

/*
 * Whether `r` is stale, left over from a request whose completion was not seen, and only seems to
 * be the request that is issued now: a device's flush request that is issued again, or a bio whose
 * memory is reused for a device that is not watched and whose queueing was therefore not recorded.
 */
static __always_inline bool is_left_over(struct wire_request *r, struct request *rq, u32 device)
{
	if (!r->issue_ns || r->requeues)
		return false;
	return !POINTER(rq, bio) || (settings.device_count && r->device != device);
}

/* Adds a request that is first seen after its queueing. */
static __always_inline struct wire_request *begin_late(struct request *rq, u32 device, u64 now)
{
	struct wire_request *r = add_request(key_of(rq));
	u64 begun = READ(rq, start_time_ns);

	if (!r)
		return NULL;
	/* In place: a literal would be built on the stack first, all of it. */
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = WIRE_REQUEST;
	r->device = device;
	r->cpu = bpf_get_smp_processor_id();
	r->sector = READ(rq, __sector);
	r->bytes = READ(rq, __data_len);
	r->operation = READ(rq, cmd_flags);
	r->system_call = -1;
	r->bios = 1;
	r->id = next_id(r->cpu);
	r->part.bytes = r->bytes;
	r->part.offset = OFFSET_UNKNOWN;
	r->part.found = is_passthrough(r->operation) ? FOUND_PASSTHROUGH : FOUND_NO_DATA;
	if (!READ(rq, bio) && !r->bytes) {
		r->flags = REQUEST_KERNEL_MADE;
		return r;
	}
	r->flags = is_passthrough(r->operation) ? 0 : REQUEST_BEGUN_BEFORE;
	/* The kernel's own time stamp, if there is one, is closer to the beginning. */
	if (begun && begun < now)
		r->queue_ns = begun;
	if (has_pages(r->operation))
		r->part.found = FOUND_NOT;
	return r;
}

/*
 * Merges the state of a bio into the request of `head`, which it was merged into; returns the next
 * bio.
 */
__noinline u64 adopt_bio(u64 head, u64 key)
{
	struct wire_request *r = find_request(head), *other = find_request(key);

	if (r)
		r->bios += 1;
	if (!r || !other)
		return next_bio(key);
	if (other->device != r->device && !other->issue_ns) {
		hand_on(key, r->device, next_id(r->cpu));
		other = find_request(key);
		if (!other)
			return next_bio(key);
	}
	if (other->queue_ns && (!r->queue_ns || other->queue_ns < r->queue_ns))
		r->queue_ns = other->queue_ns;
	if (other->get_ns && (!r->get_ns || other->get_ns < r->get_ns))
		r->get_ns = other->get_ns;
	if (other->insert_ns && (!r->insert_ns || other->insert_ns < r->insert_ns))
		r->insert_ns = other->insert_ns;
	return next_bio(key);
}

/* The same of some bios. */
__noinline u64 adopt_some(u64 head, u64 key)
{
	u32 i;

	for (i = 0; key && i < AT_ONCE; i++)
		key = adopt_bio(head, key);
	return key;
}

/* Merges the state of the bios that were merged into the request of `head`, and counts them. */
__noinline int adopt_bios(u64 head)
{
	u64 key = next_bio(head);
	u32 i;

	for (i = 0; key && i < MAX_BIOS / AT_ONCE; i++)
		key = adopt_some(head, key);
	if (key)
		count(COUNT_CHAIN_CUT);
	return 0;
}

/* At issue a request is final: its sectors and its bios. */
static __always_inline void adopt_request(struct wire_request *r, struct request *rq)
{
	struct bio *head = POINTER(rq, bio);

	if (!head) {
		if ((r->operation & 0xff) == 2) { /* REQ_OP_FLUSH */
			struct flush flush = { .issue_ns = r->issue_ns };

			bpf_map_update_elem(&flushes, &r->device, &flush, BPF_ANY);
		}
		return;
	}
	r->sector = rq->__sector;
	r->bytes = rq->__data_len;
	r->operation = rq->cmd_flags;
	if (r->operation & (REQ_BIT(__REQ_PREFLUSH) | REQ_BIT(__REQ_FUA)))
		r->flags |= REQUEST_FLUSHED;
	r->bios = 1;
	if (POINTER(head, bi_next))
		adopt_bios(number_of(head));
	else
		r->part.bytes = r->bytes;
}

/* Whether the first part is the whole request, and its owner is its submitter. */
static __always_inline bool is_plain(struct wire_request *r)
{
	return r->bios == 1 && !(r->flags & REQUEST_EXTENTS) && !is_writeback(r, &r->part);
}

/* Stores this CPU's last completion; `request` is 0 if the request is not tracked. */
static __always_inline void note_ended(u64 request, u64 time_ns)
{
	u32 zero = 0;
	struct wire_ended *ended = bpf_map_lookup_elem(&last_ended, &zero);

	if (ended) {
		ended->request = request;
		ended->time_ns = time_ns;
	}
}

/* A slow request is always recorded, so that it stands for no other. */
static __always_inline void keep_slow_weight(struct wire_request *r, u64 now)
{
	struct wire_thinning *thin = thinning_now();

	if (thin && r->queue_ns && now - r->queue_ns >= thin->slow_ns)
		r->weight = 1;
}

/* Frees the slots of bios that were recorded, of a request that was not. */
__noinline int forget_merged(u64 head)
{
	u64 key = next_bio(head);
	u32 i;

	for (i = 0; key && i < MAX_BIOS / AT_ONCE; i++)
		key = forget_bios(key);
	return 0;
}

/* Sends a completed request, and frees its slot. */
static __always_inline void finish(struct wire_request *r, u64 key)
{
	note_ended(r->id, r->complete_ns);
	if (is_plain(r)) {
		emit(r, sizeof(*r), COUNT_RING_FULL_REQUEST);
		remove_request(key);
	} else {
		emit_with_parts(key);
	}
}

/* Moves the state of `old` to `key`; a bio that was merged keeps its own file. */
__noinline int move_request(u64 old, u64 key)
{
	struct wire_request *r = find_request(old), *moved = find_request(key);

	if (!r)
		return 0;
	if (moved) {
		struct wire_part own = moved->part;
		u32 extents = moved->flags & REQUEST_EXTENTS;

		*moved = *r;
		moved->part = own;
		moved->flags = (moved->flags & ~REQUEST_EXTENTS) | extents;
	} else {
		moved = add_request(key);
		if (moved)
			*moved = *r;
	}
	remove_request(old);
	return 0;
}

/* More than the bytes of any request: the bio has not completed. */
#define NOT_ENDED (~0ULL)

/* Of the `done` bytes that begin with a bio, returns how many are after it. */
__noinline u64 behind_bio(u64 key, u32 done)
{
	u32 size = READ((struct bio *)key, bi_iter.bi_size);

	return done < size ? NOT_ENDED : done - size;
}

/* The same of some bios, up to the last one. */
__noinline u64 behind_bios(u64 key, u32 done)
{
	u64 behind;
	u32 i;

	for (i = 0; key && i < AT_ONCE; i++) {
		behind = behind_bio(key, done);
		if (behind == NOT_ENDED)
			return NOT_ENDED;
		done = behind;
		key = next_bio(key);
	}
	return done;
}

__noinline u64 skip_bios(u64 key)
{
	u32 i;

	for (i = 0; key && i < AT_ONCE; i++)
		key = next_bio(key);
	return key;
}

/* The first bio from `key` on that does not end within `done` bytes; 0 if all do. */
__noinline u64 first_not_ended(u64 key, u32 done)
{
	u64 behind;
	u32 i;

	for (i = 0; key && i < MAX_BIOS / AT_ONCE; i++) {
		behind = behind_bios(key, done);
		if (behind == NOT_ENDED)
			break;
		done = behind;
		key = skip_bios(key);
	}
	for (i = 0; key && i < AT_ONCE; i++) {
		behind = behind_bio(key, done);
		if (behind == NOT_ENDED)
			break;
		done = behind;
		key = next_bio(key);
	}
	return key;
}

/* Sends the upper disk's request, if there is one. */
__noinline int end_one_above(u64 key, s32 status, u64 now)
{
	struct wire_request *r = find_request(key | ABOVE);

	if (!r)
		return 0;
	r->complete_ns = now;
	r->status = status;
	note_ended(r->id, now);
	emit_owners(r, &r->part);
	emit(r, sizeof(*r), COUNT_RING_FULL_REQUEST);
	remove_request(key | ABOVE);
	add_to_handed_on(-1);
	return 0;
}

/* The same of some bios before `end`; returns the next bio. */
__noinline u64 end_some_above(u64 key, u64 end, s32 status, u64 now)
{
	u32 i;

	for (i = 0; key && key != end && i < AT_ONCE; i++) {
		end_one_above(key, status, now);
		key = next_bio(key);
	}
	return key;
}

/* Sends the upper disks' requests of a request's bios, of which `done` bytes have completed. */
__noinline int end_above(u64 key, u32 done, s32 status, u64 now)
{
	u64 end = first_not_ended(key, done);
	u32 i;

	for (i = 0; key && key != end && i < MAX_BIOS / AT_ONCE; i++)
		key = end_some_above(key, end, status, now);
	return 0;
}

/* Frees the slots of some bios before `end`; returns the next. */
__noinline u64 forget_until(u64 key, u64 end)
{
	u32 i;

	for (i = 0; key && key != end && i < AT_ONCE; i++)
		key = forget_bio(key);
	return key;
}

/* A request continues after `done` bytes: its state moves to the bio that is its head then. */
__noinline int go_on(u64 old, u32 done)
{
	u64 head = first_not_ended(old, done), key;
	u32 i;

	if (head == old)
		return 0;
	key = next_bio(old);
	for (i = 0; key && key != head && i < MAX_BIOS / AT_ONCE; i++)
		key = forget_until(key, head);
	if (head)
		move_request(old, head);
	return 0;
}

static __always_inline void complete_request(struct wire_request *r, struct request *rq, int status,
					     u32 done, u64 now)
{
	struct bio *head = POINTER(rq, bio);
	u64 key = key_of(rq);

	if (status)
		r->status = status;
	/*
	 * A part of it, or none: scsi reports an error once for what was done, and once for the
	 * rest.
	 */
	if (head && done < rq->__data_len) {
		if (done) {
			count(COUNT_ENDED_IN_PARTS);
			if (is_any_handed_on())
				end_above(key, done, status, now);
			go_on(key, done);
		}
		return;
	}
	if (done && is_flush_sequence(rq))
		return;
	if (!r->issue_ns && (r->operation & 0xff) <= 2 && !r->bytes) {
		/* An empty flush is not issued itself: the device was sent one for all. */
		struct flush *flush = bpf_map_lookup_elem(&flushes, &r->device);

		if (flush && flush->issue_ns >= r->get_ns)
			r->issue_ns = flush->issue_ns;
		r->flags |= REQUEST_FLUSH_SHARED;
	}
	r->complete_ns = now;
	keep_slow_weight(r, now);
	finish(r, key);
	if (head && is_any_handed_on())
		end_above(key, done, status, now);
}

#endif

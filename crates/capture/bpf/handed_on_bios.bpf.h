/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * A bio that its driver hands on to another disk as it is (md's linear, raid0 until 5.13, bcache beside
 * its cache): it is queued once, for the disk above, and issued to the one below. What was noted for the
 * disk above then gets a key of its own, until that request ends; under the bio's own the request below goes on.
 *
 * Several ways to one device (NVMe) are no disks of their own: there the disk above is all there is.
 */
#ifndef IOWHY_HANDED_ON_BIOS_H
#define IOWHY_HANDED_ON_BIOS_H

#include "in_flight.bpf.h"
#include "watched_devices.bpf.h"

/* No address of a bio has it. */
#define ABOVE 1

/* How many requests have such a key; a hint that is never too low for long. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, s64);
} handed_on SEC(".maps");

static __always_inline s64 *handed_on_count(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&handed_on, &zero);
}

static __always_inline bool is_any_handed_on(void)
{
	s64 *held = handed_on_count();

	return held && *held > 0;
}

static __always_inline void add_to_handed_on(s64 change)
{
	s64 *held = handed_on_count();

	if (held)
		__sync_fetch_and_add(held, change);
}

/* Whether the request, about to be issued to `disk`, was queued for another one. */
static __always_inline bool is_handed_on(struct wire_request *r, struct gendisk *disk, u32 device)
{
	return device && r->device != device && !r->issue_ns && !is_hidden(disk);
}

/* Tells the request of the disk above from that of `device`, both of the bio `key`. */
__noinline int hand_on(u64 key, u32 device, u64 id)
{
	struct wire_request *r = find_request(key), *above;

	if (!r)
		return 0;
	above = add_request(key | ABOVE);
	if (above) {
		*above = *r;
		above->get_ns = above->insert_ns = 0;
		if (above->flags & REQUEST_EXTENTS) {
			/* To look at them once more takes more stack than there is. */
			above->flags &= ~REQUEST_EXTENTS;
			above->part.found = FOUND_BELOW;
		}
		add_to_handed_on(1);
	}
	if (!is_watched(device)) {
		remove_request(key);
		return 0;
	}
	r->device = device;
	r->parent = r->id;
	r->id = id;
	r->stack = r->weight = 0;
	/* When it was handed on is not known: a moment before. */
	if (r->get_ns)
		r->queue_ns = r->get_ns;
	return 0;
}

#endif

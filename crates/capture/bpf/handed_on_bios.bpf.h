/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Bios that a driver passes on to another disk unchanged (md's linear, raid0 until 5.13, bcache
 * bypassing its cache): such a bio is queued once, for the upper disk, and issued to the lower one.
 * The state of the upper request then gets a key of its own until that request ends; the bio's own
 * key continues as the lower request.
 *
 * The paths of a multipath NVMe device are not disks of their own: there only the upper disk
 * exists.
 */
#ifndef IOWHY_HANDED_ON_BIOS_H
#define IOWHY_HANDED_ON_BIOS_H

#include "in_flight.bpf.h"
#include "watched_devices.bpf.h"

/* No address of a bio has this bit set. */
#define ABOVE 1

/* Number of requests with such a key; a hint that is only briefly too low. */
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
		atomic_add(held, change);
}

/* Whether the request, about to be issued to `disk`, was queued for another disk. */
static __always_inline bool is_handed_on(struct wire_request *r, struct gendisk *disk, u32 device)
{
	return device && r->device != device && !r->issue_ns && !is_hidden(disk);
}

/* Separates the request of the upper disk from that of `device`, both of the bio `key`. */
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
			/* Reading the pages again needs more stack than there is. */
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
	r->stack = r->stack_weight = 0;
	/* The time of the remap is not known: shortly before G. */
	if (r->get_ns)
		r->queue_ns = r->get_ns;
	return 0;
}

#endif

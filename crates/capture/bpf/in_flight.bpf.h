/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Bios and requests in flight, by address. Slots of an array are claimed by their key: a hash map
 * would cost four times as much, and its entries would have to be copied.
 *
 * A key has two slots; if both are taken it goes to a hash map, which is searched only while it is
 * not empty. The first slot is the common case and the only one that is inlined.
 */
#ifndef IOWHY_IN_FLIGHT_H
#define IOWHY_IN_FLIGHT_H

#include "emit.bpf.h"

/*
 * Kernels whose only atomic instruction is add (before 91c960b00566, 5.12) cannot claim slots:
 * there the hash map holds everything. They reject a program for an instruction even if it is never
 * reached, so this is a compile-time choice.
 */
#ifdef IOWHY_NO_ATOMICS
#define OVERFLOW_ENTRIES 32768
#else
#define OVERFLOW_ENTRIES 4096
#endif

/* User space sets its size: 1 << settings.pairs_bits. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_pair);
} pending SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OVERFLOW_ENTRIES);
	__type(key, u64);
	__type(value, struct wire_request);
} overflow SEC(".maps");

/* Number of requests in the hash map; a hint that is only briefly too low. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, s64);
} overflowed SEC(".maps");

/*
 * How many requests are in both tables, by a part of their keys' hash: what is 0 here need not be
 * looked for there. Small enough to stay in a CPU's cache, and never too low.
 */
#define TRACKED_BITS 11

struct tracked {
	u32 of[1 << TRACKED_BITS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tracked);
} tracked SEC(".maps");

static __always_inline u32 *tracked_alike(u64 key)
{
	u32 zero = 0;
	struct tracked *all = bpf_map_lookup_elem(&tracked, &zero);

	if (!all)
		return NULL;
	/* Else the compiler adds the offset first, which older verifiers refuse. */
	barrier_var(all);
	return &all->of[(key * 0x9e3779b97f4a7c15ULL) >> (64 - TRACKED_BITS)];
}

/* Whether the request of `key` may be in flight and recorded; cheaper than to look for it. */
static __always_inline bool may_be_tracked(u64 key)
{
	u32 *alike = tracked_alike(key);

	return !alike || *alike;
}

static __always_inline void add_to_tracked(u64 key, s32 change)
{
	u32 *alike = tracked_alike(key);

	if (alike)
		atomic_add(alike, change);
}

static __always_inline s64 *overflow_count(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&overflowed, &zero);
}

static __always_inline bool has_overflowed(void)
{
	s64 *held = overflow_count();

	return held && *held > 0;
}

static __always_inline void add_to_overflow_count(s64 change)
{
	s64 *held = overflow_count();

	if (held)
		atomic_add(held, change);
}

static __always_inline struct wire_pair *pair_of(u64 key)
{
	u32 place = (key * 0x9e3779b97f4a7c15ULL) >> (64 - settings.pairs_bits);

	return bpf_map_lookup_elem(&pending, &place);
}

static __noinline struct wire_request *find_overflowed(u64 key)
{
	return bpf_map_lookup_elem(&overflow, &key);
}

static __always_inline struct wire_request *add_overflowed(u64 key)
{
	u32 level = ROOM_SUBMIT;
	union room *room = room_of(level);

	if (!room)
		return NULL;
	/* The content does not matter: the caller fills it in. */
	if (bpf_map_update_elem(&overflow, &key, room, BPF_ANY)) {
		count(COUNT_MAP_FULL);
		return NULL;
	}
	add_to_overflow_count(1);
	add_to_tracked(key, 1);
	return bpf_map_lookup_elem(&overflow, &key);
}

#ifdef IOWHY_NO_ATOMICS
static __always_inline struct wire_request *find_request(u64 key)
{
	return find_overflowed(key);
}

static __always_inline struct wire_request *add_request(u64 key)
{
	struct wire_request *known = find_overflowed(key);

	if (!known)
		return add_overflowed(key);
	count(COUNT_END_MISSED);
	return known;
}

static __always_inline void remove_request(u64 key)
{
	if (bpf_map_delete_elem(&overflow, &key) == 0)
		add_to_tracked(key, -1);
}
#else
/* Returns the request of `key`, or NULL. A free slot has the key 0, which is never used. */
static __always_inline struct wire_request *find_request(u64 key)
{
	struct wire_pair *pair = pair_of(key);

	if (!pair || !key)
		return NULL;
	if (pair->keys[0] == key)
		return &pair->requests[0];
	if (pair->keys[1] == key)
		return &pair->requests[1];
	if (has_overflowed())
		return find_overflowed(key);
	return NULL;
}

static __noinline struct wire_request *add_elsewhere(struct wire_pair *pair, u64 key)
{
	/* A reused address: the completion of its last user was not seen. */
	if (pair->keys[0] == key) {
		count(COUNT_END_MISSED);
		return &pair->requests[0];
	}
	if (pair->keys[1] == key) {
		count(COUNT_END_MISSED);
		return &pair->requests[1];
	}
	if (has_overflowed()) {
		struct wire_request *known = find_overflowed(key);

		if (known) {
			count(COUNT_END_MISSED);
			return known;
		}
	}
	if (__sync_val_compare_and_swap(&pair->keys[1], 0, key) == 0) {
		add_to_tracked(key, 1);
		return &pair->requests[1];
	}
	return add_overflowed(key);
}

/* Returns a slot for the request of `key`, not initialized; NULL if there is none. */
static __always_inline struct wire_request *add_request(u64 key)
{
	struct wire_pair *pair = pair_of(key);

	if (!pair)
		return NULL;
	if (pair->keys[1] != key && __sync_val_compare_and_swap(&pair->keys[0], 0, key) == 0) {
		add_to_tracked(key, 1);
		return &pair->requests[0];
	}
	return add_elsewhere(pair, key);
}

/* Frees the slot of `key`; pointers into it must not be used any more. */
static __always_inline void remove_request(u64 key)
{
	struct wire_pair *pair = pair_of(key);

	if (!pair)
		return;
	/* With a barrier: the next owner's writes must not pass our reads. */
	if (pair->keys[0] == key) {
		if (__sync_lock_test_and_set(&pair->keys[0], 0) != key)
			return;
	} else if (pair->keys[1] == key) {
		if (__sync_lock_test_and_set(&pair->keys[1], 0) != key)
			return;
	} else if (has_overflowed() && bpf_map_delete_elem(&overflow, &key) == 0) {
		add_to_overflow_count(-1);
	} else {
		return;
	}
	add_to_tracked(key, -1);
}
#endif

#endif

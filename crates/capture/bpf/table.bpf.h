/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * What is under way, by the address of a bio or request. Slots in an array that are claimed by
 * their key: a hash map would cost four times as much, and its entries would have to be copied in.
 *
 * A key has two slots; where both are taken it goes to a hash map, which is looked at only while
 * there is anything in it.
 */
#ifndef IOWHY_TABLE_H
#define IOWHY_TABLE_H

#include "emit.bpf.h"

#define SLOTS_BITS	 15
#define SLOTS		 (1 << SLOTS_BITS)
#define OVERFLOW_ENTRIES 8192

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct wire_slot);
} under_way SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OVERFLOW_ENTRIES);
	__type(key, u64);
	__type(value, struct wire_slot);
} overflow SEC(".maps");

/* How many requests the hash map holds; a hint that is never too low for long. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, s64);
} overflowed SEC(".maps");

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
		__sync_fetch_and_add(held, change);
}

static __always_inline u32 slot_of(u64 key)
{
	return (key * 0x9e3779b97f4a7c15ULL) >> (64 - SLOTS_BITS);
}

static __always_inline struct wire_slot *slot_at(u32 place)
{
	return bpf_map_lookup_elem(&under_way, &place);
}

static __noinline struct wire_request *find_overflowed(u64 key)
{
	struct wire_slot *slot = bpf_map_lookup_elem(&overflow, &key);

	return slot ? &slot->request : NULL;
}

/* The request under `key`, or null. */
static __always_inline struct wire_request *find_request(u64 key)
{
	u32 place = slot_of(key);
	struct wire_slot *slot = slot_at(place);

	if (slot && slot->key == key)
		return &slot->request;
	slot = slot_at(place ^ 1);
	if (slot && slot->key == key)
		return &slot->request;
	if (has_overflowed())
		return find_overflowed(key);
	return NULL;
}

static __noinline struct wire_request *add_overflowed(u64 key)
{
	u32 level = ROOM_SUBMIT;
	union room *room = room_of(level);
	struct wire_slot *slot;

	if (!room)
		return NULL;
	/* The content does not matter: the caller fills it in. */
	if (bpf_map_update_elem(&overflow, &key, room, BPF_ANY)) {
		count(COUNT_MAP_FULL);
		return NULL;
	}
	add_to_overflow_count(1);
	slot = bpf_map_lookup_elem(&overflow, &key);
	if (!slot)
		return NULL;
	slot->key = key;
	return &slot->request;
}

/* A place for the request under `key`, its content left as it was; null where there is no room. */
static __always_inline struct wire_request *add_request(u64 key)
{
	u32 place = slot_of(key);
	struct wire_slot *first = slot_at(place), *second = slot_at(place ^ 1);

	if (!first || !second)
		return NULL;
	/* An address that is used again: its last user's end was not seen. */
	if (first->key == key) {
		count(COUNT_END_MISSED);
		return &first->request;
	}
	if (second->key == key) {
		count(COUNT_END_MISSED);
		return &second->request;
	}
	if (__sync_val_compare_and_swap(&first->key, 0, key) == 0)
		return &first->request;
	if (__sync_val_compare_and_swap(&second->key, 0, key) == 0)
		return &second->request;
	return add_overflowed(key);
}

/* Frees the place of `key`; what was read of it before must not be used any more. */
static __always_inline void remove_request(u64 key)
{
	u32 place = slot_of(key);
	struct wire_slot *slot = slot_at(place);

	if (!slot)
		return;
	if (slot->key != key) {
		slot = slot_at(place ^ 1);
		if (!slot)
			return;
	}
	if (slot->key == key) {
		/* With a barrier: the next owner's writes must not pass our reads. */
		__sync_lock_test_and_set(&slot->key, 0);
		return;
	}
	if (has_overflowed() && bpf_map_delete_elem(&overflow, &key) == 0)
		add_to_overflow_count(-1);
}

#endif

/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Dirtiers of pages: recorded per inode by the writeback probe, sent with the request that writes
 * the pages, and reduced by what was written.
 */
#ifndef IOWHY_OWNERS_H
#define IOWHY_OWNERS_H

#include "emit.bpf.h"
#include "file_of_bio.bpf.h"

/* A dirtier and its bytes, in one word so that two CPUs cannot claim a slot at the same time. */
#define DIRTIER_MASK ((1ULL << WIRE_OWNER_BITS) - 1)

struct dirtiers {
	u64 top[WIRE_MAX_OWNERS];
	u64 other_bytes;
	/*
	 * Of all others: the first one, a hash of its process's name, and whether others have
	 * another name.
	 */
	u32 other_tgid;
	u32 other_name;
	u64 others_differ;
	/* The file range they dirtied since the account was opened, and the number of bytes. */
	u64 first;
	u64 end;
	u64 dirtied;
	u64 mixed; /* other pages of the file were dirty or under writeback before */
};

/*
 * A file that is created where another was deleted reuses its number and address, but not its
 * dirtiers.
 */
struct inode_key {
	u64 address;
	u64 check;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WIRE_DIRTY_INODES);
	__type(key, struct inode_key);
	__type(value, struct dirtiers);
} dirty_inodes SEC(".maps");

static __always_inline u64 dirtier(u32 tgid, u64 bytes)
{
	return (u64)tgid << WIRE_OWNER_BITS | (bytes & DIRTIER_MASK);
}

/* Subtracts `written` bytes from the dirtiers' accounts, in proportion. */
static __always_inline void settle(struct dirtiers *dirtiers, u64 total, u64 written)
{
	int i;

	if (written >= total) {
		for (i = 0; i < WIRE_MAX_OWNERS; i++)
			dirtiers->top[i] = 0;
		dirtiers->other_bytes = 0;
		dirtiers->other_tgid = 0;
		dirtiers->other_name = 0;
		dirtiers->others_differ = 0;
		return;
	}
	for (i = 0; i < WIRE_MAX_OWNERS; i++)
		dirtiers->top[i] -= (dirtiers->top[i] & DIRTIER_MASK) * written / total;
	dirtiers->other_bytes -= dirtiers->other_bytes * written / total;
}

/*
 * Whether the bytes were dirtied in the page cache, perhaps by another task. False for a request
 * that serves an upper request: the upper one is writeback, and settles the account.
 */
static __always_inline bool is_writeback(struct wire_request *r, struct wire_part *part)
{
	if (!(r->operation & 1) || r->parent)
		return false;
	return part->found == FOUND_PAGE ||
	       (part->found == FOUND_BTRFS && r->flags & REQUEST_KERNEL_THREAD);
}

/*
 * The bytes of `part` that were dirtied since the account was opened. If other pages had been dirty
 * before, only the range decides: bytes outside of it are not counted, and of a range in which not
 * every page was dirtied only a share is.
 */
static __always_inline u64 dirtied_of(struct dirtiers *dirtiers, struct wire_part *part)
{
	u64 from = part->offset, to = part->offset + part->bytes;
	u64 place = dirtiers->end - dirtiers->first;

	if (!dirtiers->mixed)
		return part->bytes;
	if (part->offset == OFFSET_UNKNOWN)
		return 0;
	if (from < dirtiers->first)
		from = dirtiers->first;
	if (to > dirtiers->end)
		to = dirtiers->end;
	if (from >= to)
		return 0;
	if (dirtiers->dirtied >= place)
		return to - from;
	/* In units of 1/1024: the product of both would overflow. */
	return (to - from) * (dirtiers->dirtied / (place / 1024 + 1)) / 1024;
}

/* Sends the dirtiers of the inode of `part`, and settles what is written of it. */
static __noinline void emit_owners(struct wire_request *r, struct wire_part *part)
{
	union room *room = room_of(ROOM_OWNERS);
	struct wire_owners *owners;
	struct inode_key key = {};
	struct dirtiers *dirtiers;
	u64 total;
	int i;

	if (!room || !is_writeback(r, part))
		return;
	key.address = part->inode.address;
	key.check = check_of_inode(part->inode.number, part->inode.generation);
	dirtiers = bpf_map_lookup_elem(&dirty_inodes, &key);
	if (!dirtiers)
		return;
	/* Not on the stack, which has 512 bytes for the whole call chain. */
	owners = &room->owners;
	owners->kind = WIRE_OWNERS;
	owners->request = r->id;
	owners->inode = part->inode;
	owners->offset = part->offset;
	total = owners->other_bytes = dirtiers->other_bytes;
	for (i = 0; i < WIRE_MAX_OWNERS; i++) {
		owners->owners[i] = dirtiers->top[i];
		total += owners->owners[i] & DIRTIER_MASK;
	}
	owners->other_tgid = dirtiers->others_differ ? 0 : dirtiers->other_tgid;
	owners->theirs = dirtied_of(dirtiers, part);
	if (!total || !owners->theirs)
		return;
	emit(owners, sizeof(*owners), COUNT_RING_FULL_DETAIL);
	settle(dirtiers, total, owners->theirs);
}

#endif

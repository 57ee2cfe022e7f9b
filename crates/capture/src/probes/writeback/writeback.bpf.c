// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Dirtiers of pages: runs in the dirtier's context, once per page that becomes dirty, and keeps the
 * largest dirtiers of each inode, with the file range, for the request that will write it.
 */
#include "owners.bpf.h"
#include "watched_devices.bpf.h"
#include "submitters.bpf.h"

#define TRIES 4

/* Replaces the value of a slot; returns whether it still had the expected value. */
static __always_inline bool replace(u64 *place, u64 then, u64 now)
{
#ifdef IOWHY_NO_ATOMICS
	*place = now;
	return true;
#else
	return __sync_val_compare_and_swap(place, then, now) == then;
#endif
}

/* A hash of a process's name, never 0: bytes after its NUL are from an earlier name. */
static __always_inline u32 name_of(struct task_struct *task)
{
	char name[WIRE_COMM_LEN] = {};
	u32 hash = 2166136261;
	int i;

	BPF_CORE_READ_INTO(&name, task, group_leader, comm);
	for (i = 0; i < WIRE_COMM_LEN; i++) {
		if (!name[i])
			break;
		hash = (hash ^ (u8)name[i]) * 16777619;
	}
	return hash | 1;
}

/* Adds `bytes` to the shared account of tasks without an account of their own. */
static __always_inline void charge_others(struct dirtiers *dirtiers, struct task_struct *task,
					  u64 bytes)
{
	u32 name = name_of(task);

	atomic_add(&dirtiers->other_bytes, bytes);
	if (!dirtiers->other_name) {
		dirtiers->other_name = name;
		dirtiers->other_tgid = READ(task, tgid);
	} else if (dirtiers->other_name != name) {
		dirtiers->others_differ = 1;
	}
	if (dirtiers->others_differ)
		count(COUNT_DIRTIERS_AGGREGATED);
}

/* Adds `bytes` to the task's account, or to the shared one. */
static __always_inline void charge_dirtier(struct dirtiers *dirtiers, struct task_struct *task,
					   u64 bytes)
{
	u32 tgid = READ(task, tgid);
	int i, tries;

	for (i = 0; i < WIRE_MAX_OWNERS; i++) {
		u64 *place = &dirtiers->top[i];

		for (tries = 0; tries < TRIES; tries++) {
			u64 then = *(volatile u64 *)place, held = then & DIRTIER_MASK;

			if (held && then >> WIRE_OWNER_BITS != tgid)
				break;
			if (replace(place, then, dirtier(tgid, held + bytes)))
				return;
		}
	}
	charge_others(dirtiers, task, bytes);
}

/*
 * The marks of an xarray's root cover the whole tree: the first is "dirty", the second "writeback".
 */
static __always_inline u64 marks_of(struct xa_node *node)
{
	struct xa_node___rows *rows = (void *)node;

	if (bpf_core_field_exists(rows->marks))
		return READ(rows, marks[0][0]) | READ(rows, marks[1][0]);
	return READ(node, marks[0]) | READ(node, marks[1]);
}

/*
 * Whether pages of the mapping are dirty or under writeback, except for the one being dirtied now.
 */
static __always_inline bool has_unwritten(struct address_space *mapping, struct page *folio)
{
	u64 head = number_of(READ(mapping, i_pages.xa_head));
	u64 flags = 0;

	if ((head & 3) == 2)
		return marks_of((struct xa_node *)(head - 2));
	/* The mapping has only this page. */
	bpf_probe_read_kernel(&flags, sizeof(flags), folio);
	return flags & (1ULL << bpf_core_enum_value(enum pageflags, PG_writeback));
}

/* Extends the dirtied file range. */
static __always_inline void note_place(struct dirtiers *dirtiers, u64 offset, u64 bytes)
{
	if (!dirtiers->dirtied || offset < dirtiers->first)
		dirtiers->first = offset;
	if (offset + bytes > dirtiers->end)
		dirtiers->end = offset + bytes;
	atomic_add(&dirtiers->dirtied, bytes);
}

/*
 * The account of the inode: a new one if there is none, or if everything of the last one was
 * written.
 */
static __always_inline struct dirtiers *account_of(struct inode_key *key, bool unwritten)
{
	struct dirtiers *dirtiers = bpf_map_lookup_elem(&dirty_inodes, key);
	struct dirtiers none = { .mixed = unwritten };

	if (dirtiers && unwritten)
		return dirtiers;
	if (!dirtiers)
		count(COUNT_DIRTY_INODES);
	bpf_map_update_elem(&dirty_inodes, key, &none, BPF_ANY);
	return bpf_map_lookup_elem(&dirty_inodes, key);
}

static __always_inline int note_dirty(struct page *folio, struct address_space *mapping)
{
	struct task_struct *task = current_task();
	struct inode_key key = {};
	struct dirtiers *dirtiers;
	struct inode *inode;
	u64 bytes;

	if (!mapping)
		return 0;
	inode = READ(mapping, host);
	/* Pages of a block device are metadata, which has no owner. */
	if (!inode || READ(READ(inode, i_sb), s_magic) == BDEVFS_MAGIC)
		return 0;
	if (!is_on_watched_device(inode))
		return 0;
	key.address = number_of(inode);
	key.check = check_of_inode(READ(inode, i_ino), READ(inode, i_generation));
	dirtiers = account_of(&key, has_unwritten(mapping, folio));
	if (!dirtiers)
		return 0;
	bytes = folio_pages(folio) << settings.page_shift;
	see_task(number_of(task), ROOM_DIRTY);
	note_place(dirtiers, page_index(folio) << settings.page_shift, bytes);
	charge_dirtier(dirtiers, task, bytes);
	return 0;
}

SEC("tp_btf/writeback_dirty_folio")
UNDISTURBED(on_dirty)
{
	return note_dirty((struct page *)ctx[0], (struct address_space *)ctx[1]);
}

/* The same before folios: 203a31516616, 5.18. */
SEC("tp_btf/writeback_dirty_page")
UNDISTURBED(on_dirty_page)
{
	return note_dirty((struct page *)ctx[0], (struct address_space *)ctx[1]);
}

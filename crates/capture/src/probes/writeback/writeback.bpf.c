// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Who makes pages dirty: runs in the dirtier's context, once for each page that becomes dirty, and
 * keeps the largest dirtiers of each inode for the request that will write it.
 */
#include "owners.bpf.h"
#include "watched.bpf.h"
#include "who.bpf.h"

/* Adds `bytes` to the task's account, or to that of all others. */
static __always_inline void charge(struct dirtiers *dirtiers, u32 tgid, u64 bytes)
{
	int i;

	for (i = 0; i < WIRE_MAX_OWNERS; i++) {
		struct wire_owner *owner = &dirtiers->top[i];

		if (owner->bytes && owner->tgid != tgid)
			continue;
		owner->tgid = tgid;
		__sync_fetch_and_add(&owner->bytes, bytes);
		return;
	}
	__sync_fetch_and_add(&dirtiers->other_bytes, bytes);
	count(COUNT_DIRTIERS_LUMPED);
}

static __always_inline int note_dirty(struct page *folio, struct address_space *mapping)
{
	struct task_struct *task = current_task();
	struct inode_key key = {};
	struct dirtiers *dirtiers;
	struct inode *inode;

	if (!mapping)
		return 0;
	inode = READ(mapping, host);
	/* A device's own pages are metadata, which nobody owns. */
	if (!inode || READ(READ(inode, i_sb), s_magic) == BDEVFS_MAGIC)
		return 0;
	if (!is_on_watched_device(inode))
		return 0;
	key.address = number_of(inode);
	key.check = check_of_inode(READ(inode, i_ino), READ(inode, i_generation));
	dirtiers = bpf_map_lookup_elem(&dirty_inodes, &key);
	if (!dirtiers) {
		struct dirtiers none = {};

		bpf_map_update_elem(&dirty_inodes, &key, &none, BPF_ANY);
		dirtiers = bpf_map_lookup_elem(&dirty_inodes, &key);
		if (!dirtiers)
			return 0;
	}
	see_task(number_of(task), ROOM_DIRTY);
	charge(dirtiers, READ(task, tgid), folio_pages(folio) << settings.page_shift);
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

char LICENSE[] SEC("license") = "Dual MIT/GPL";

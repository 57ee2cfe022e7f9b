/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Finds the file that a bio's bytes belong to. The order of the rules prevents wrong names: first
 * metadata and journals by their owner, then direct I/O by its open file, then the pages
 * themselves. Without a proof there is no name.
 */
#ifndef IOWHY_FILE_OF_BIO_H
#define IOWHY_FILE_OF_BIO_H

#include "emit.bpf.h"

#define MAX_CHAIN	  8	  /* maximum depth of bio_chain() */
#define OFFSET_UNKNOWN	  (~0ULL) /* if a part's offset in its file is not known */
#define BDEVFS_MAGIC	  0x62646576
#define BTRFS_BTREE_INODE 1

SEEN_MAP(seen_files);

/* Global, as kind_of_ending(): the verifier takes the result for any number. */
__noinline u32 end_io_of(u64 address)
{
#define END_IO_MATCH(id, symbol)            \
	if (address == settings.end_io[id]) \
		return address ? id : END_IO_UNKNOWN;
	END_IO_LIST(END_IO_MATCH)
#undef END_IO_MATCH
	return END_IO_UNKNOWN;
}

/* Fills in the identity of an inode; returns false if it is NULL. */
static __always_inline bool identify(struct inode *inode, struct wire_inode *id)
{
	if (!inode)
		return false;
	id->address = number_of(inode);
	id->number = READ(inode, i_ino);
	id->generation = READ(inode, i_generation);
	id->device = READ(READ(inode, i_sb), s_dev);
	return true;
}

/* Distinguishes files that reuse an inode's address and number. */
static __always_inline u64 check_of_inode(u64 number, u32 generation)
{
	return number ^ ((u64)generation << 32);
}

/* Appends a dentry's name to the file's names; returns its parent, 0 at the end. */
__noinline u64 name_dentry(u64 address, u32 level)
{
	struct dentry *dentry = (struct dentry *)address;
	u64 parent = number_of(READ(dentry, d_parent));
	union room *room = room_of(level);

	if (!room || !parent || parent == address)
		return 0;
	return add_name(&room->file.names, READ(dentry, d_name.name)) ? parent : 0;
}

/*
 * Sends the file's path, once. If `dentry` is 0, an alias of the inode is used. A global function,
 * like every function with a loop: the verifier checks it once, not once per path to each caller.
 */
__noinline int see_file(u64 inode_address, u64 dentry_address, u32 level)
{
	struct inode *inode = (struct inode *)inode_address;
	u64 dentry = dentry_address;
	struct wire_inode id = {};
	struct wire_file *file;
	struct seen *slot;
	union room *room;
	u64 check;
	int depth;

	if (!identify(inode, &id))
		return 0;
	/* The same address can be the same inode of a file system that was mounted again. */
	check = check_of_inode(id.number, id.generation) ^ id.device * 0x9e3779b97f4a7c15ULL;
	slot = seen_slot(&seen_files, inode_address);
	if (is_seen(slot, inode_address, check))
		return 0;
	room = room_of(level);
	if (!room)
		return 0;
	file = &room->file;
	file->kind = WIRE_FILE;
	file->inode = id;
	file->magic = READ(READ(inode, i_sb), s_magic);
	file->deleted = READ(inode, i_nlink) == 0;
	file->mode = READ(inode, i_mode);
	clear_names(&file->names);
	if (!dentry) {
		u64 alias = number_of(READ(inode, i_dentry.first));

		if (alias)
			dentry = alias - alias_offset();
	}
	for (depth = 0; dentry && depth <= WIRE_NAMES_MAX; depth++)
		dentry = name_dentry(dentry, level);
	if (file->names.cut)
		count(COUNT_PATH_CUT);
	if (emit(file, NAMED_SIZE(struct wire_file, file), COUNT_RING_FULL_DETAIL))
		mark_seen(slot, inode_address, check);
	return 0;
}

/* Files are found when a bio is queued, or when a slow one completes. */
static __always_inline u32 room_level(struct wire_request *r)
{
	return r->flags & REQUEST_SLOW ? ROOM_COMPLETE : ROOM_SUBMIT;
}

/* Direct I/O through iomap: the file is that of the kiocb. */
static __always_inline u32 find_direct(struct wire_request *r, struct kiocb *iocb, u64 before)
{
	struct file *file = READ(iocb, ki_filp);
	struct inode *inode = READ(file, f_inode);

	if (!identify(inode, &r->part.inode))
		return FOUND_NOT;
	r->part.offset = READ(iocb, ki_pos) + before;
	see_file(number_of(inode), number_of(READ(file, f_path.dentry)), room_level(r));
	return FOUND_DIRECT;
}

/* The file of a page. The mapping must point back to itself through its inode. */
static __always_inline u32 find_page(struct page *page, struct wire_part *part,
				     struct inode **found)
{
	struct page *head = head_page(page);
	u64 word = number_of(READ(head, mapping));
	struct address_space *mapping = (struct address_space *)word;
	struct inode *inode;

	if (!word)
		return FOUND_NO_MAPPING;
	if (word & 3)
		return FOUND_ANONYMOUS;
	inode = READ(mapping, host);
	if (!inode || number_of(READ(inode, i_mapping)) != word)
		return FOUND_NO_MAPPING;
	if (!identify(inode, &part->inode))
		return FOUND_NO_MAPPING;
	part->offset = page_position(page, head) << settings.page_shift;
	*found = inode;
	return FOUND_PAGE;
}

/*
 * Whether the last byte is where it is expected from the first, so that the bio is contiguous in
 * the file: pages are in file order, so nothing can be missing in between.
 */
static __always_inline bool is_one_run(struct bio *bio, struct wire_request *r, u32 vecs)
{
	u64 vec = number_of(READ(bio, bi_io_vec)) + (vecs - 1) * sizeof(struct bio_vec);
	struct wire_part last = {};
	struct inode *inode = NULL;
	struct bio_vec end;
	u32 at;

	if (bpf_probe_read_kernel(&end, sizeof(end), (void *)vec))
		return false;
	at = end.bv_offset + end.bv_len - 1;
	if (find_page((struct page *)nth_page(end.bv_page, at), &last, &inode) != FOUND_PAGE)
		return false;
	return last.inode.address == r->part.inode.address &&
	       last.offset + page_offset(at) + 1 == r->part.offset + r->bytes;
}

/* What is known of a bio besides its pages. */
enum ending {
	ENDING_KNOWN,	/* by its bi_end_io: of a file system or of the page cache */
	ENDING_WAITED,	/* waited for synchronously, which proves nothing about its pages */
	ENDING_UNKNOWN, /* nothing more */
};

__noinline u32 kind_of_ending(u32 end_io)
{
	if (end_io == END_IO_UNKNOWN)
		return ENDING_UNKNOWN;
	return end_io == END_IO_SUBMIT_WAIT ? ENDING_WAITED : ENDING_KNOWN;
}

static __always_inline u32 find_pages(struct bio *bio, struct wire_request *r, enum ending ending)
{
	void *vec = (void *)number_of(READ(bio, bi_io_vec));
	u32 vecs = READ(bio, bi_vcnt);
	struct inode *inode = NULL;
	struct bio_vec first;
	u32 found;

	if (!vec || bpf_probe_read_kernel(&first, sizeof(first), vec))
		return FOUND_NOT;
	found = find_page(first.bv_page, &r->part, &inode);
	if (found == FOUND_ANONYMOUS && ending == ENDING_WAITED)
		return FOUND_RAW_ANON;
	if (found != FOUND_PAGE)
		return found;
	if (READ(READ(inode, i_sb), s_magic) == BDEVFS_MAGIC) {
		r->part.offset += first.bv_offset;
		return FOUND_BDEV_PAGE;
	}
	/*
	 * The buffer of an I/O can itself be a page of a mapped file; only the file's own device
	 * proves a match.
	 */
	if (ending != ENDING_KNOWN &&
	    number_of(READ(READ(READ(inode, i_sb), s_bdev), bd_disk)) != number_of(bio_disk(bio)))
		return FOUND_NO_MAPPING;
	r->part.offset += first.bv_offset;
	if (!vecs ||
	    ((vecs > 1 || first.bv_len > 1U << settings.page_shift) && !is_one_run(bio, r, vecs)))
		r->flags |= REQUEST_EXTENTS;
	see_file(number_of(inode), 0, room_level(r));
	return found;
}

/*
 * Whether the page cache is reading or writing back the bio's first page: PG_locked or PG_writeback
 * is set. Neither is set on a buffer of direct I/O, even if it is in a mapped file.
 */
static __always_inline bool is_of_page_cache(struct bio *bio, u32 operation)
{
	u32 bit = operation & 1 ? bpf_core_enum_value(enum pageflags, PG_writeback)
				: bpf_core_enum_value(enum pageflags, PG_locked);
	struct bio_vec first;
	u64 flags = 0;

	if (bpf_probe_read_kernel(&first, sizeof(first), (void *)number_of(READ(bio, bi_io_vec))))
		return false;
	bpf_probe_read_kernel(&flags, sizeof(flags), head_page(first.bv_page));
	return flags & (1ULL << bit);
}

/* The inode of a direct I/O, which btrfs stored for its bio until 6.1; NULL if it is none. */
static __always_inline struct inode *btrfs_direct_inode(struct btrfs_bio *bbio)
{
	struct btrfs_dio_private *dio = NULL;
	u64 ending = settings.end_io[END_IO_BTRFS_DIRECT];

	if (!bpf_core_field_exists(bbio->private) || !bpf_core_field_exists(dio->inode) ||
	    !ending || number_of(BPF_CORE_READ(bbio, end_io)) != ending)
		return NULL;
	dio = BPF_CORE_READ(bbio, private);
	return BPF_CORE_READ(dio, inode);
}

/* For kernels that do not store the inode with a page cache bio: its pages identify it. */
static __always_inline u32 find_btrfs_pages(struct bio *bio, struct wire_request *r)
{
	struct btrfs_bio *bbio = NULL;
	struct inode *inode = NULL;
	u32 found;

	if (bpf_core_type_exists(struct btrfs_bio) && bpf_core_field_exists(bbio->file_offset)) {
		bbio = (void *)(number_of(bio) - bpf_core_field_offset(struct btrfs_bio, bio));
		inode = btrfs_direct_inode(bbio);
	}
	if (inode && identify(inode, &r->part.inode)) {
		r->part.offset = BPF_CORE_READ(bbio, file_offset);
		see_file(number_of(inode), 0, room_level(r));
		return FOUND_DIRECT;
	}
	found = find_pages(bio, r, ENDING_KNOWN);
	if (found != FOUND_PAGE || is_of_page_cache(bio, r->operation))
		return found;
	r->flags &= ~REQUEST_EXTENTS;
	return FOUND_ANONYMOUS;
}

/*
 * btrfs stores the inode with its bio; the bio's pages match it only for buffered, plain data.
 * Older kernels do not store it (before 6.3), or have no BTF for it (btrfs is a module, and before
 * 5.11 only vmlinux has BTF).
 */
static __always_inline u32 find_btrfs(struct bio *bio, struct wire_request *r)
{
	struct btrfs_inode *owner;
	struct btrfs_bio *bbio = NULL;
	struct wire_inode id;
	u64 inode;

	if (!bpf_core_type_exists(struct btrfs_bio) || !bpf_core_field_exists(bbio->inode) ||
	    !bpf_core_field_exists(bbio->file_offset))
		return find_btrfs_pages(bio, r);
	bbio = (void *)(number_of(bio) - bpf_core_field_offset(struct btrfs_bio, bio));
	owner = BPF_CORE_READ(bbio, inode); /* perhaps of a module */
	inode = number_of(owner) + bpf_core_field_offset(struct btrfs_inode, vfs_inode);
	if (!owner || !identify((struct inode *)inode, &id))
		return find_pages(bio, r, ENDING_KNOWN);
	if (id.number == BTRFS_BTREE_INODE)
		return FOUND_METADATA;
	if (find_pages(bio, r, ENDING_KNOWN) == FOUND_PAGE && r->part.inode.address == inode)
		return FOUND_PAGE;
	r->flags &= ~REQUEST_EXTENTS;
	r->part.inode = id;
	r->part.offset = BPF_CORE_READ(bbio, file_offset);
	see_file(inode, 0, room_level(r));
	return FOUND_BTRFS;
}

/*
 * The completion function of a buffer head with the common bi_end_io; from 7.x on the bio itself
 * has the buffer's.
 */
static __always_inline u32 buffer_end_io(struct buffer_head *head)
{
	if (!bpf_core_field_exists(head->b_end_io))
		return END_IO_BUFFER_HEAD;
	if (end_io_of(number_of(READ(head, b_end_io))) == END_IO_JBD2)
		return END_IO_JBD2;
	return END_IO_BUFFER_HEAD;
}

/* Set by find_file() for bios that complete a direct I/O. */
struct direct {
	struct kiocb *iocb;
	struct task_struct *waiter; /* the task that waits for it synchronously */
};

/*
 * Whether iomap adds a bio to dio->size after it was queued (Debian's 7.2), not before. In that
 * case the first bio of each direct I/O finds a size of 0, before any other bio needs to know. Bios
 * that zero the rest of a block are never added: they are shorter than a block.
 */
static volatile u32 dio_counts_late;

static __always_inline u64 bytes_before(struct iomap_dio *dio, struct kiocb *iocb, u32 bytes)
{
	u64 size = READ(dio, size);

	if (!size && bytes >> READ(READ(READ(iocb, ki_filp), f_inode), i_blkbits))
		dio_counts_late = 1;
	if (dio_counts_late)
		return size;
	return size >= bytes ? size - bytes : 0;
}

static __always_inline u32 find_iomap_dio(u64 private, struct wire_request *r,
					  struct direct *direct)
{
	struct iomap_dio *dio = (struct iomap_dio *)private;

	direct->iocb = READ(dio, iocb);
	if (READ(dio, wait_for_completion))
		direct->waiter = READ(dio, submit.waiter);
	return find_direct(r, direct->iocb, bytes_before(dio, direct->iocb, r->bytes));
}

/*
 * The task that sleeps on a completion, as in submit_bio_wait(); NULL if none does yet. From 7.x
 * on, direct reads and writes of a block device wait in the same way.
 */
static __always_inline struct task_struct *waiter_of(struct completion *completion)
{
	u64 list = number_of(completion) + bpf_core_field_offset(struct completion, wait.task_list);
	u64 first = number_of(READ((struct list_head *)list, next));

	if (!first || first == list)
		return NULL;
	first -= bpf_core_field_offset(struct swait_queue, task_list);
	return READ((struct swait_queue *)first, task);
}

/*
 * The bio at the end of a bio_chain(). Unrolled: clang from 21 on puts the loop's head behind its
 * body, which falls into it, and before 10e14e9652bf (6.7) the verifier took that for an endless
 * loop.
 */
__noinline u64 end_of_chain(u64 address)
{
	struct bio *bio = (struct bio *)address;
	int depth;

#pragma clang loop unroll(full)
	for (depth = 0; depth < MAX_CHAIN; depth++) {
		if (number_of(READ(bio, bi_end_io)) != settings.end_io[END_IO_CHAIN])
			break;
		bio = (struct bio *)number_of(READ(bio, bi_private));
	}
	return number_of(bio);
}

/* Finds the file of `bio`; returns the part's `found`. */
static __always_inline u32 find_file(struct bio *bio, struct wire_request *r, struct direct *direct)
{
	u64 ending = number_of(bio->bi_end_io), private = number_of(bio->bi_private);
	struct bio *at = bio;
	u32 end_io = end_io_of(ending);

	if (end_io == END_IO_CHAIN) {
		at = (struct bio *)end_of_chain(private);
		private = number_of(READ(at, bi_private));
		end_io = end_io_of(number_of(READ(at, bi_end_io)));
	}
	/* jbd2 marks its journal as metadata, too, so the owner is checked first. */
	if (end_io == END_IO_BUFFER_HEAD)
		end_io = buffer_end_io((struct buffer_head *)private);
	if (end_io == END_IO_JBD2 || end_io == END_IO_XFS_LOG)
		return FOUND_JOURNAL;
	if (r->operation & REQ_BIT(__REQ_META))
		return FOUND_METADATA;
	switch (end_io) {
	case END_IO_XFS_BUF:
		return FOUND_METADATA;
	case END_IO_SWAP_READ:
	case END_IO_SWAP_WRITE:
		return FOUND_SWAP;
	case END_IO_IOMAP_DIO:
		return find_iomap_dio(private, r, direct);
	case END_IO_BLKDEV_SIMPLE:
		direct->waiter = (struct task_struct *)private;
		return FOUND_RAW;
	case END_IO_BLKDEV:
	case END_IO_BLKDEV_ASYNC:
		return FOUND_RAW;
	case END_IO_SUBMIT_WAIT:
		direct->waiter = waiter_of((struct completion *)private);
		break;
	case END_IO_BTRFS:
	case END_IO_BTRFS_WRITE:
		return find_btrfs(at, r);
	}
	return find_pages(bio, r, kind_of_ending(end_io));
}

#endif

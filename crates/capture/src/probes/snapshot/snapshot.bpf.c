// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * State that exists when the watch begins, and when it ends. Nothing here is attached: user space
 * runs these programs when it needs them.
 */
#include "request_bios.bpf.h"

#define MAX_DISKS     1024 /* block devices that are searched for one */
#define DISKS_AT_ONCE 32
#define TAGS_AT_ONCE  16
#define FMODE_WRITE   2
#define S_IFMT	      0170000
#define S_IFREG	      0100000

static __always_inline bool is_in_flight(struct request *rq)
{
	return READ(rq, state) == bpf_core_enum_value(enum mq_rq_state, MQ_RQ_IN_FLIGHT);
}

/* Adds a request that was queued before the watch. */
static __always_inline void add_earlier(struct request *rq, u32 device)
{
	u64 now = bpf_ktime_get_ns(), key = key_of(rq);
	struct wire_request *r;

	if (find_request(key))
		return;
	r = begin_late(rq, device, now);
	if (!r)
		return;
	r->issue_ns = READ(rq, io_start_time_ns);
	/* It may have completed between the check and this point. */
	if (!is_in_flight(rq) || key_of(rq) != key)
		remove_request(key);
}

/* Adds a request that was not chosen to be recorded, and has been in flight for long. */
static __always_inline void add_slow(struct request *rq, u32 device)
{
	u64 now = bpf_ktime_get_ns(), key = key_of(rq), began = READ(rq, start_time_ns);
	struct wire_thinning *thin = thinning_now();
	struct skipped_span *span = span_of_skipped();
	struct wire_skipped *slot = rests_on(thin, device) ? NULL : find_skipped(key);
	struct wire_request *r;

	if (slot)
		began = slot->queue_ns;
	if (!thin || !span || !span->first_ns || began < span->first_ns ||
	    now - began < WIRE_LISTED_NS || find_request(key))
		return;
	r = begin_late(rq, device, now);
	if (!r)
		return;
	r->flags = REQUEST_SLOW;
	r->weight = 1;
	r->queue_ns = began;
	r->issue_ns = READ(rq, io_start_time_ns);
	if (slot) {
		r->tgid = slot->pid_tgid >> 32;
		r->tid = slot->pid_tgid;
		r->cpu = slot->cpu;
		if (slot->issue_ns)
			r->issue_ns = slot->issue_ns;
		slot->bio = 0;
	}
	if (!is_in_flight(rq) || key_of(rq) != key)
		remove_request(key);
}

static __always_inline void mark_known(struct request *rq)
{
	struct wire_request *r = pending_request(rq);

	if (!r)
		return;
	r->flags |= REQUEST_AT_DEVICE;
	/* All of them are listed, so that it stands for no other. */
	if (r->weight > 1 && r->queue_ns && bpf_ktime_get_ns() - r->queue_ns >= WIRE_LISTED_NS)
		r->weight = 1;
}

/* Checks one tag of the queue at `queue`. */
__noinline int look_at_tag(u64 place, u64 queue, u32 device, u32 mode)
{
	struct request *rq = NULL;

	if (bpf_probe_read_kernel(&rq, sizeof(rq), (void *)place) || !rq)
		return 0;
	/* A free tag still points to the last request that used it. */
	if (number_of(READ(rq, q)) != queue || !is_in_flight(rq))
		return 0;
	if (mode == SCAN_MARK)
		mark_known(rq);
	else if (mode == SCAN_ADD_SLOW)
		add_slow(rq, device);
	else
		add_earlier(rq, device);
	return 0;
}

/* Checks some tags. */
__noinline int look_at_tags(u64 place, u64 queue, u32 device, u32 mode, u32 count)
{
	u32 i;

	for (i = 0; i < TAGS_AT_ONCE && i < count; i++)
		look_at_tag(place + i * sizeof(void *), queue, device, mode);
	return 0;
}

/* The block device of the file system of the descriptor's file. */
static __always_inline struct block_device *device_under(u64 descriptor)
{
	struct fdtable *table = READ(READ(current_task(), files), fdt);
	struct file *file = NULL;

	if (descriptor >= READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), READ(table, fd) + descriptor);
	return READ(READ(READ(file, f_inode), i_sb), s_bdev);
}

/* Returns the queue of the block device at `address` if its number is `device`, else 0. */
__noinline u64 queue_if(u64 address, u32 device)
{
	struct gendisk *disk = READ((struct block_device *)address, bd_disk);

	return disk && device_of(disk) == device ? number_of(READ(disk, queue)) : 0;
}

/* From a block device to its inode. */
static __always_inline u64 to_inode(void)
{
	return bpf_core_field_offset(struct bdev_inode, vfs_inode) -
	       bpf_core_field_offset(struct bdev_inode, bdev);
}

/* From a block device to the link of its inode in the list of all. */
static __always_inline u64 to_link(void)
{
	return to_inode() + bpf_core_field_offset(struct inode, i_sb_list);
}

/* The same of the block device whose link in the list of all is `link`; 0 at the list's end. */
__noinline u64 queue_at(u64 link, u64 end, u32 device)
{
	return link && link != end ? queue_if(link - to_link(), device) : 0;
}

/* The next link of the list; its end is followed by itself. */
__noinline u64 next_link(u64 link, u64 end)
{
	return link && link != end ? number_of(READ((struct list_head *)link, next)) : link;
}

/* Follows some links of the list up to the one of `device`, or to its end; returns the last. */
__noinline u64 follow_links(u64 link, u64 end, u32 device)
{
	u32 i;

	for (i = 0; i < DISKS_AT_ONCE; i++) {
		if (queue_at(link, end, device))
			break;
		link = next_link(link, end);
	}
	return link;
}

/*
 * Finds the queue of a device: the inodes of all block devices are in one list, which any of them
 * leads to.
 */
__noinline u64 find_queue(u64 anchor, u32 device)
{
	struct super_block *sb = READ((struct inode *)(anchor + to_inode()), i_sb);
	u64 end = number_of(sb) + bpf_core_field_offset(struct super_block, s_inodes);
	u64 link = number_of(READ((struct list_head *)end, next)), queue;
	u32 i;

	/*
	 * No condition of the loop depends on the link: compilers keep what it told in a register,
	 * and older verifiers follow each of its values through all further turns.
	 */
	for (i = 0; i < MAX_DISKS / DISKS_AT_ONCE; i++) {
		queue = queue_at(link, end, device);
		if (queue)
			return queue;
		link = follow_links(link, end, device);
	}
	return queue_at(link, end, device);
}

/*
 * Checks some tags of a queue; returns the number of tags of the queue, 0 if there is no such
 * queue.
 */
SEC("raw_tp")
int look_in_flight(u64 *ctx)
{
	struct block_device *anchor = device_under(ctx[0]);
	u64 device = ctx[1], queue_number = ctx[2], first = ctx[3], mode = ctx[4];
	struct blk_mq_tags *tags = NULL;
	struct blk_mq_tag_set *set;
	u64 queue, requests, at;
	u32 count, i;

	if (!anchor)
		return 0;
	queue = find_queue(number_of(anchor), device);
	if (!queue)
		return 0;
	set = READ((struct request_queue *)queue, tag_set);
	if (!set || queue_number >= READ(set, nr_hw_queues))
		return 0;
	bpf_probe_read_kernel(&tags, sizeof(tags), READ(set, tags) + queue_number);
	count = READ(tags, nr_tags);
	requests = number_of(READ(tags, rqs));
	for (i = 0; i < WIRE_TAGS_AT_ONCE / TAGS_AT_ONCE; i++) {
		at = first + i * TAGS_AT_ONCE;
		if (at >= count)
			break;
		look_at_tags(requests + at * sizeof(void *), queue, device, mode, count - at);
	}
	return count;
}

static __always_inline void list_one(struct seq_file *seq, u32 place, u64 key,
				     struct wire_request *r)
{
	struct wire_pending record = { .place = place };

	if (!key || !r->queue_ns)
		return;
	record.queue_ns = r->queue_ns;
	record.issue_ns = r->issue_ns;
	record.device = r->device;
	bpf_seq_write(seq, &record, sizeof(record));
}

/* Lists the in-flight table. */
SEC("iter/bpf_map_elem")
int list_pending(struct bpf_iter__bpf_map_elem *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct wire_pair *pair = ctx->value;
	u32 *place = ctx->key;

	if (!pair || !place)
		return 0;
	list_one(seq, *place, pair->keys[0], &pair->requests[0]);
	list_one(seq, *place, pair->keys[1], &pair->requests[1]);
	return 0;
}

/* Lists processes with files of a watched device open for writing. */
SEC("iter/task_file")
int list_writers(struct bpf_iter__task_file *ctx)
{
	struct wire_writer writer = {};
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct inode *inode;

	if (!task || !file || !(READ(file, f_mode) & FMODE_WRITE))
		return 0;
	inode = READ(file, f_inode);
	if ((READ(inode, i_mode) & S_IFMT) != S_IFREG || !is_on_block_device(inode))
		return 0;
	if (!is_on_watched_device(inode) || !identify(inode, &writer.inode))
		return 0;
	writer.tgid = READ(task, tgid);
	BPF_CORE_READ_INTO(&writer.process, task, group_leader, comm);
	bpf_seq_write(ctx->meta->seq, &writer, sizeof(writer));
	return 0;
}

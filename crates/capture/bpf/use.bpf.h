/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * What each process does with each file, added up here: a call costs an entry's look-up, not a
 * record. There are two tables; while one fills, user space reads and empties the other.
 */
#ifndef IOWHY_USE_H
#define IOWHY_USE_H

#include "watched.bpf.h"
#include "who.bpf.h"

#define MAX_USES      16384
#define FMODE_CREATED (1U << 20)
#define S_IFMT	      0170000
#define S_IFREG	      0100000
#define S_IFDIR	      0040000
#define S_IFBLK	      0060000

/* File systems that hold no data: what is read there, the kernel makes up. */
#define PROC_SUPER_MAGIC 0x9fa0
#define SYSFS_MAGIC	 0x62656572
#define CGROUP_MAGIC	 0x27e0eb
#define CGROUP2_MAGIC	 0x63677270
#define DEBUGFS_MAGIC	 0x64626720
#define TRACEFS_MAGIC	 0x74726163
#define SECURITYFS_MAGIC 0x73636673
#define BPF_FS_MAGIC	 0xcafe4a11

struct use_key {
	u64 what; /* an inode's address, or a place, whose highest bit is 0 */
	u64 who;  /* the process; above it what tells apart inodes that had one address */
};

#define USE_MAP(name)                            \
	struct {                                 \
		__uint(type, BPF_MAP_TYPE_HASH); \
		__uint(max_entries, MAX_USES);   \
		__type(key, struct use_key);     \
		__type(value, struct wire_use);  \
	} name SEC(".maps")

USE_MAP(uses);
USE_MAP(uses_2);

/* All that finds no room there. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_use);
} other_uses SEC(".maps");

/* What user space says while the programs run. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_control);
} file_control SEC(".maps");

static __always_inline struct wire_control *control(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&file_control, &zero);
}

static __always_inline struct wire_use *find_use(struct use_key *key)
{
	struct wire_control *now = control();

	if (now && now->second_table)
		return bpf_map_lookup_elem(&uses_2, key);
	return bpf_map_lookup_elem(&uses, key);
}

/* The entry of `key`, made from `first` where there is none; with no room left, that of all others. */
static __always_inline struct wire_use *add_use(struct use_key *key, struct wire_use *first)
{
	struct wire_control *now = control();
	struct wire_use *use;
	u32 zero = 0;

	first->first_ns = bpf_ktime_get_ns();
	if (now && now->second_table)
		bpf_map_update_elem(&uses_2, key, first, BPF_NOEXIST);
	else
		bpf_map_update_elem(&uses, key, first, BPF_NOEXIST);
	use = find_use(key);
	if (use)
		return use;
	count(COUNT_USES_FULL);
	return bpf_map_lookup_elem(&other_uses, &zero);
}

static __always_inline bool holds_data(u64 magic)
{
	switch (magic) {
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case CGROUP_MAGIC:
	case CGROUP2_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case BPF_FS_MAGIC:
		return false;
	}
	return true;
}

static __always_inline bool is_file(u32 mode)
{
	mode &= S_IFMT;
	return mode == S_IFREG || mode == S_IFDIR || mode == S_IFBLK;
}

static __always_inline struct use_key key_of_inode(struct inode *inode, u32 tgid)
{
	struct use_key key = {
		.what = number_of(inode),
		.who = (READ(inode, i_ino) ^ READ(inode, i_generation)) << 32 | tgid,
	};

	return key;
}

static __noinline struct wire_use *begin_use(struct inode *inode, u64 dentry,
					     struct task_struct *task, u32 level)
{
	struct wire_use first = {};
	struct use_key key;

	if (!holds_data(READ(READ(inode, i_sb), s_magic)) || !is_on_watched_device(inode))
		return NULL;
	identify(inode, &first.inode);
	first.tgid = READ(task, tgid);
	key = key_of_inode(inode, first.tgid);
	see_file(number_of(inode), dentry, level);
	see_task(number_of(task), level);
	return add_use(&key, &first);
}

/* The task's entry for the inode; null where it is no file that is looked at. */
static __always_inline struct wire_use *use_of(struct inode *inode, u64 dentry,
					       struct task_struct *task, u32 level)
{
	struct wire_use *use;
	struct use_key key;

	if (!inode || !is_file(READ(inode, i_mode)))
		return NULL;
	key = key_of_inode(inode, READ(task, tgid));
	use = find_use(&key);
	return use ? use : begin_use(inode, dentry, task, level);
}

static __always_inline struct wire_use *use_of_file(struct file *file, struct task_struct *task,
						    u32 level)
{
	if (!file)
		return NULL;
	return use_of(READ(file, f_inode), number_of(READ(file, f_path.dentry)), task, level);
}

/* What a call gave back, and how long it took; 0 where that is not known. */
struct outcome {
	s64 result;
	u64 duration_ns;
};

static __always_inline u32 time_of_kind(u32 kind)
{
	switch (kind) {
	case USE_READ:
		return TIME_READ;
	case USE_WRITE:
		return TIME_WRITE;
	case USE_FSYNC:
		return TIME_FSYNC;
	}
	return TIME_OTHER;
}

static __always_inline void charge(struct wire_use *use, u32 kind, struct outcome *outcome)
{
	if (!use)
		return;
	if (outcome->duration_ns) {
		__sync_fetch_and_add(&use->times[time_of_kind(kind)], outcome->duration_ns);
		__sync_fetch_and_add(&use->calls[USE_TIMED], 1);
	}
	if (outcome->result < 0) {
		__sync_fetch_and_add(&use->calls[USE_FAILED], 1);
		return;
	}
	__sync_fetch_and_add(&use->calls[kind & (USE_KINDS - 1)], 1);
	if (kind == USE_READ)
		__sync_fetch_and_add(&use->read_bytes, outcome->result);
	else if (kind == USE_WRITE)
		__sync_fetch_and_add(&use->write_bytes, outcome->result);
}

/* An open that worked: of a file that was there, or of a new one. */
static __always_inline void charge_open(struct wire_use *use, struct file *file,
					struct outcome *outcome)
{
	charge(use, USE_OPEN, outcome);
	if (!use || !(READ(file, f_mode) & FMODE_CREATED))
		return;
	__sync_fetch_and_add(&use->calls[USE_CREATE], 1);
	if (!use->created_ns)
		use->created_ns = bpf_ktime_get_ns();
}

/* The open file behind a descriptor of the task; null where there is none any more. */
static __always_inline struct file *file_of(struct task_struct *task, u32 descriptor)
{
	struct fdtable *table = READ(READ(task, files), fdt);
	struct list_head *place;

	if (!table || descriptor >= READ(table, max_fds))
		return NULL;
	/* A word is read faster as a pointer than copied. */
	place = (struct list_head *)(number_of(READ(table, fd)) + (u64)descriptor * sizeof(void *));
	return (struct file *)READ(place, next);
}

#endif

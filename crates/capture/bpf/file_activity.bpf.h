/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Use of files by processes, aggregated in the kernel: a call costs a lookup in the slots of its
 * CPU, not a record. When another file needs a slot, its content moves to a table that all CPUs
 * share. There are two of each: while one fills, user space reads and empties the other.
 */
#ifndef IOWHY_FILE_ACTIVITY_H
#define IOWHY_FILE_ACTIVITY_H

#include "watched_devices.bpf.h"
#include "submitters.bpf.h"

#define MAX_USES      16384
#define FMODE_CREATED (1U << 20)
#define S_IFREG	      0100000
#define S_IFDIR	      0040000

/* File systems without data: the kernel generates what is read there. */
#define PROC_SUPER_MAGIC 0x9fa0
#define SYSFS_MAGIC	 0x62656572
#define CGROUP_MAGIC	 0x27e0eb
#define CGROUP2_MAGIC	 0x63677270
#define DEBUGFS_MAGIC	 0x64626720
#define TRACEFS_MAGIC	 0x74726163
#define SECURITYFS_MAGIC 0x73636673
#define BPF_FS_MAGIC	 0xcafe4a11

struct use_key {
	u64 file_key; /* an inode's address, or a hash, whose highest bit is 0 */
	u64 process_key;
};

#define USE_MAP(name)                            \
	struct {                                 \
		__uint(type, BPF_MAP_TYPE_HASH); \
		__uint(max_entries, MAX_USES);   \
		__type(key, struct use_key);     \
		__type(value, struct wire_use);  \
	} name SEC(".maps")

#define PER_CPU_MAP(name, value_type)                    \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); \
		__uint(max_entries, 1);                  \
		__type(key, u32);                        \
		__type(value, value_type);               \
	} name SEC(".maps")

USE_MAP(uses);
USE_MAP(uses_2);
PER_CPU_MAP(slots, struct wire_slots);
/* The slots of io_uring: its completions may interrupt a call that uses a slot. */
PER_CPU_MAP(uring_slots, struct wire_slots);
/* Everything that does not fit into the tables. */
PER_CPU_MAP(other_uses, struct wire_use);

/* Run-time settings from user space. */
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

static __always_inline u32 epoch_now(void)
{
	struct wire_control *now = control();

	return now ? now->epoch : 0;
}

static __always_inline struct wire_use *find_use(struct use_key *key)
{
	return epoch_now() & 1 ? bpf_map_lookup_elem(&uses_2, key)
			       : bpf_map_lookup_elem(&uses, key);
}

/* Adds `use` as the entry of its key, if there is none. */
static __always_inline long add_use(struct wire_use *use)
{
	return epoch_now() & 1 ? bpf_map_update_elem(&uses_2, use, use, BPF_NOEXIST)
			       : bpf_map_update_elem(&uses, use, use, BPF_NOEXIST);
}

/* Adds the counts of `use` to `sum`; many CPUs may do so concurrently. */
static __always_inline void add_counts(struct wire_use *sum, struct wire_use *use)
{
	int i;

	if (use->created_ns)
		sum->created_ns = use->created_ns;
	atomic_add(&sum->read_bytes, use->read_bytes);
	atomic_add(&sum->write_bytes, use->write_bytes);
	atomic_add(&sum->fault_bytes, use->fault_bytes);
	for (i = 0; i < TIME_GROUPS; i++)
		atomic_add(&sum->times[i], use->times[i]);
	for (i = 0; i < USE_KINDS; i++)
		if (use->calls[i])
			atomic_add(&sum->calls[i], use->calls[i]);
}

/* Moves the content of a slot to the table. */
static __noinline void spill(struct wire_use *use)
{
	struct wire_use *known;
	u32 zero = 0;

	if (add_use(use) == 0)
		return;
	known = find_use((struct use_key *)use);
	if (!known) {
		count(COUNT_USES_FULL);
		known = bpf_map_lookup_elem(&other_uses, &zero);
	}
	if (known)
		add_counts(known, use);
}

static __always_inline struct wire_slots *own_slots(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&slots, &zero);
}

/* The slot for `key`; it may hold another key. */
static __always_inline struct wire_use *slot_of_key(struct wire_slots *own, struct use_key *key,
						    u32 epoch)
{
	u32 place = (key->file_key >> 6 ^ key->file_key >> 13 ^ key->process_key) &
		    (WIRE_USE_SLOTS - 1);

	return &own->of[epoch & 1][place];
}

static __always_inline bool is_of(struct wire_use *use, struct use_key *key, u32 epoch)
{
	return use->file_key == key->file_key && use->process_key == key->process_key &&
	       use->epoch == epoch;
}

/* Reassigns a slot to another file or directory. */
static __always_inline void begin_slot(struct wire_use *slot, struct use_key *key, u32 epoch)
{
	if (slot->file_key && slot->epoch == epoch)
		spill(slot);
	__builtin_memset(slot, 0, sizeof(*slot));
	slot->file_key = key->file_key;
	slot->process_key = key->process_key;
	slot->epoch = epoch;
	slot->first_ns = bpf_ktime_get_ns();
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
		.file_key = number_of(inode),
		.process_key = (READ(inode, i_ino) ^ READ(inode, i_generation)) << 32 | tgid,
	};

	return key;
}

/* Whether a file holds data, on a watched device. */
static __noinline bool is_wanted(struct inode *inode)
{
	return holds_data(READ(READ(inode, i_sb), s_magic)) && is_on_watched_device(inode);
}

/*
 * Whether the file is to be recorded; if so, sends the file and the task. Inlined, because a frame
 * of its own makes the stack too deep where BPF has no cast (before 6.2).
 */
static __always_inline bool meet(struct inode *inode, u64 dentry, struct task_struct *task,
				 u32 level)
{
	if (!is_wanted(inode))
		return false;
	see_file(number_of(inode), dentry, level);
	see_task(number_of(task), level);
	return true;
}

/* The slot of the file for a task; NULL if the file is not recorded. */
static __always_inline struct wire_use *slot_of_file(struct wire_slots *own, struct file *file,
						     struct task_struct *task, u32 level)
{
	struct inode *inode = file ? READ(file, f_inode) : NULL;
	struct wire_use *slot;
	struct use_key key;
	u32 epoch = epoch_now();

	if (!inode || !is_file(READ(inode, i_mode)))
		return NULL;
	key = key_of_inode(inode, READ(task, tgid));
	slot = slot_of_key(own, &key, epoch);
	if (is_of(slot, &key, epoch))
		return slot;
	if (!meet(inode, number_of(READ(file, f_path.dentry)), task, level))
		return NULL;
	begin_slot(slot, &key, epoch);
	identify(inode, &slot->inode);
	return slot;
}

/* The same for page faults, which may interrupt code that uses a slot: an entry of the table. */
static __always_inline struct wire_use *entry_of(struct inode *inode, struct task_struct *task,
						 u32 level)
{
	struct wire_use first = {}, *use;
	struct use_key key;
	u32 zero = 0;

	if (!inode || !is_file(READ(inode, i_mode)))
		return NULL;
	key = key_of_inode(inode, READ(task, tgid));
	use = find_use(&key);
	if (use)
		return use;
	if (!meet(inode, 0, task, level))
		return NULL;
	first.file_key = key.file_key;
	first.process_key = key.process_key;
	first.first_ns = bpf_ktime_get_ns();
	identify(inode, &first.inode);
	add_use(&first);
	use = find_use(&key);
	if (use)
		return use;
	count(COUNT_USES_FULL);
	return bpf_map_lookup_elem(&other_uses, &zero);
}

/* The result of a call, and its duration; 0 if that is not known. */
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

/* Counts a call in a slot, which no other CPU or task uses at the same time. */
static __always_inline void charge(struct wire_use *slot, u32 kind, struct outcome *outcome)
{
	u32 place;

	if (!slot)
		return;
	if (outcome->duration_ns) {
		slot->times[time_of_kind(kind)] += outcome->duration_ns;
		slot->calls[USE_TIMED] += 1;
	}
	if (outcome->result < 0) {
		slot->calls[USE_FAILED] += 1;
		return;
	}
	/* Compilers that know the range leave the mask out, without which kernels refuse the place. */
	place = kind;
	barrier_var(place);
	slot->calls[place & (USE_KINDS - 1)] += 1;
	if (kind == USE_READ)
		slot->read_bytes += outcome->result;
	else if (kind == USE_WRITE)
		slot->write_bytes += outcome->result;
}

static __always_inline bool is_created(struct file *file)
{
	return READ(file, f_mode) & FMODE_CREATED;
}

/* A successful open: of an existing file, or of a new one. */
static __always_inline void charge_open(struct wire_use *slot, struct file *file,
					struct outcome *outcome)
{
	charge(slot, USE_OPEN, outcome);
	if (slot && is_created(file)) {
		slot->calls[USE_CREATE] += 1;
		slot->created_ns = bpf_ktime_get_ns();
	}
}

/* The open file of a descriptor of the task; NULL if it is closed. */
static __always_inline struct file *file_of(struct task_struct *task, u32 descriptor)
{
	struct fdtable *table = READ(READ(task, files), fdt);
	struct list_head *place;

	if (!table || descriptor >= READ(table, max_fds))
		return NULL;
	/* Reading a word as a pointer is faster than copying it. */
	place = (struct list_head *)(number_of(READ(table, fd)) + (u64)descriptor * sizeof(void *));
	return (struct file *)READ(place, next);
}

static __always_inline void on_descriptor(struct wire_slots *own, struct task_struct *task,
					  u32 kind, u64 descriptor, struct outcome *outcome)
{
	charge(slot_of_file(own, file_of(task, descriptor), task, ROOM_SUBMIT), kind, outcome);
}

#endif

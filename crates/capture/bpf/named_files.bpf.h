/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * System calls that name a file instead of using a descriptor. If the kernel did not find the file,
 * or does not keep it, there is only the text that the program passed: it is charged to the
 * directory as the program named it. Removals and renames are also sent one by one, up to a rate
 * limit.
 */
#ifndef IOWHY_NAMED_FILES_H
#define IOWHY_NAMED_FILES_H

#include "file_activity.bpf.h"

#define AT_FDCWD   (-100)
#define LOOKED_AT  256 /* bytes of a path that are searched for its directory */
#define LETTERS	   16  /* of them that are searched at once, so that the verifier is quick */
#define PATH_ENDED (1U << 31)
#define PLACE_BITS 9 /* of a directory id: the length of the directory in the path */
#define SECOND_NS  1000000000ULL

SEEN_MAP(seen_places);

/* A path as passed to a system call. */
struct naming {
	u64 text;
	int directory; /* dirfd, or AT_FDCWD */
	u32 kind;      /* enum wire_use_kind */
	u32 second;    /* second of two paths */
};

/* Single calls sent in the current second. */
struct call_budget {
	u64 second_ns;
	u64 sent;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_budget);
} call_budgets SEC(".maps");

/* The place behind the last slash of some letters from `first` on, 0 if there is none. */
__noinline u32 last_slash(u32 level, u32 first)
{
	union room *room = room_of(level);
	u32 i, place = 0;

	if (!room || first > LOOKED_AT - LETTERS)
		return 0;
	for (i = 0; i < LETTERS; i++) {
		u8 letter = room->call.text[first + i];

		if (!letter)
			return place | PATH_ENDED;
		if (letter == '/')
			place = first + i + 1;
	}
	return place;
}

/* Goes on with the hash of a path, with some letters from `first` on, but none from `end` on. */
__noinline u64 hash_letters(u32 level, u64 hash, u32 first, u32 end)
{
	union room *room = room_of(level);
	u32 i;

	if (!room || first > LOOKED_AT - LETTERS)
		return 0;
	for (i = 0; i < LETTERS && first + i < end; i++)
		hash = (hash ^ (u8)room->call.text[first + i]) * 0x100000001b3ULL;
	return hash;
}

/* The hash of a path's directory, with its length in the low bits; 0 if it has none. */
__noinline u64 directory_of(u32 level)
{
	u32 i, place, length = 0;
	u64 hash = 0xcbf29ce484222325ULL;

	for (i = 0; i < LOOKED_AT; i += LETTERS) {
		place = last_slash(level, i);
		if (place & ~PATH_ENDED)
			length = place & ~PATH_ENDED;
		if (place & PATH_ENDED)
			break;
	}
	/* The directory may be deeper: then the call is charged to one of its parents. */
	if (i >= LOOKED_AT)
		count(COUNT_PATH_CUT);
	if (!length)
		return 0;
	for (i = 0; i < LOOKED_AT && i < length; i += LETTERS)
		hash = hash_letters(level, hash, i, length);
	return hash << PLACE_BITS | length;
}

/* Start of a path lookup: the root for an absolute path, else dirfd or the working directory. */
static __always_inline struct dentry *base_of(struct task_struct *task, int directory, char first)
{
	struct fs_struct *fs = READ(task, fs);
	struct file *file;

	if (first == '/')
		return READ(fs, root.dentry);
	if (directory == AT_FDCWD)
		return READ(fs, pwd.dentry);
	file = file_of(task, directory);
	return file ? READ(file, f_path.dentry) : NULL;
}

static __always_inline bool may_send_call(u64 now)
{
	u32 zero = 0;
	struct call_budget *budget = bpf_map_lookup_elem(&call_budgets, &zero);

	if (!budget)
		return false;
	if (now - budget->second_ns >= SECOND_NS) {
		budget->second_ns = now;
		budget->sent = 0;
	}
	if (budget->sent >= settings.calls_per_second) {
		count(COUNT_CALLS_LEFT_OUT);
		return false;
	}
	budget->sent += 1;
	return true;
}

/* Sends the directory of an id, once. The path is in the scratch buffer. */
__noinline int see_place(u64 place, u32 bytes)
{
	union room *room = room_of(ROOM_CALL);
	struct seen *slot = seen_slot(&seen_places, place);
	struct wire_directory *record;
	struct wire_inode base;

	if (!room || is_seen(slot, place, bytes))
		return 0;
	base = room->call.base;
	record = (void *)room_of(ROOM_SUBMIT);
	if (!record)
		return 0;
	record->kind = WIRE_DIRECTORY;
	record->bytes = bytes;
	record->place = place;
	record->base = base;
	bpf_probe_read_kernel(record->text, LOOKED_AT, room->call.text);
	if (emit(record,
		 __builtin_offsetof(struct wire_directory, text) + (bytes & (LOOKED_AT * 2 - 1)),
		 COUNT_RING_FULL_DETAIL))
		mark_seen(slot, place, bytes);
	return 0;
}

/* The slot of the directory of the path in the scratch buffer. */
static __always_inline struct wire_use *slot_of_path(struct wire_slots *own, struct wire_call *call,
						     struct dentry *base, struct task_struct *task)
{
	u64 directory = directory_of(ROOM_CALL);
	struct use_key key = { .process_key = call->tgid };
	u32 epoch = epoch_now();
	struct wire_use *slot;

	key.file_key = directory ^ (call->base.address * 0x9e3779b97f4a7c15ULL);
	key.file_key &= ~(1ULL << 63);
	slot = slot_of_key(own, &key, epoch);
	if (is_of(slot, &key, epoch))
		return slot;
	see_file(call->base.address, number_of(base), ROOM_SUBMIT);
	see_task(number_of(task), ROOM_SUBMIT);
	see_place(key.file_key, directory & ((1 << PLACE_BITS) - 1));
	begin_slot(slot, &key, epoch);
	return slot;
}

static __always_inline bool is_sent(u32 kind, s64 result)
{
	if (kind == USE_OPEN)
		return settings.each_open;
	return (kind == USE_UNLINK || kind == USE_RENAME) && result >= 0;
}

/* Reads the path of a call into the scratch buffer; returns NULL if it cannot be read. */
static __always_inline struct wire_call *read_call(struct naming *naming, struct task_struct *task,
						   struct dentry **base)
{
	union room *room = room_of(ROOM_CALL);
	struct wire_call *call;
	long bytes;

	if (!room)
		return NULL;
	call = &room->call;
	bytes = bpf_probe_read_user_str(call->text, WIRE_PATH_LEN, (void *)naming->text);
	if (bytes < 0) {
		/* Its page is not in memory, and a program cannot fault it in. */
		if (naming->text)
			count(COUNT_PATH_UNREAD);
		return NULL;
	}
	/* For an empty string, kernels up to 6.12 return 0 without counting the NUL. */
	call->bytes = bytes ? bytes - 1 : 0;
	call->tgid = READ(task, tgid);
	call->tid = READ(task, pid);
	*base = base_of(task, naming->directory, call->text[0]);
	if (!*base || !identify(READ(*base, d_inode), &call->base))
		return NULL;
	return call;
}

static __always_inline bool send_call(struct wire_call *call, struct dentry *base,
				      struct naming *naming, struct outcome *outcome)
{
	u64 now = bpf_ktime_get_ns(), size;

	if (!may_send_call(now))
		return false;
	see_file(call->base.address, number_of(base), ROOM_SUBMIT);
	call->kind = WIRE_CALL;
	call->use = naming->kind;
	call->time_ns = now;
	call->duration_ns = outcome->duration_ns;
	call->result = outcome->result;
	call->second = naming->second;
	size = __builtin_offsetof(struct wire_call, text) + call->bytes;
	return emit(call, size & (ROOM_BYTES - 1), COUNT_RING_FULL_CALL);
}

/*
 * Sends a successful open by io_uring. When it completes, the path that the program passed is gone:
 * the file is sent instead.
 */
static __noinline void send_uring_open(struct task_struct *task, struct file *file,
				       struct outcome *outcome)
{
	struct naming naming = { .kind = USE_OPEN };
	union room *room = room_of(ROOM_CALL);
	struct wire_call *call;

	if (!room || !file || !identify(READ(file, f_inode), &room->call.base))
		return;
	call = &room->call;
	call->inode = call->base;
	call->bytes = 0;
	call->tgid = READ(task, tgid);
	call->tid = READ(task, pid);
	see_task(number_of(task), ROOM_SUBMIT);
	send_call(call, READ(file, f_path.dentry), &naming, outcome);
}

#endif

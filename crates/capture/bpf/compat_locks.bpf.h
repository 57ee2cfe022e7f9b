/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Differences between kernels in locks: as in compat.bpf.h, one accessor each, which checks the
 * kernel's BTF, never its version.
 */
#ifndef IOWHY_COMPAT_LOCKS_H
#define IOWHY_COMPAT_LOCKS_H

#include "compat.bpf.h"

/*
 * The lock that a task sleeps for, with the kind in the low bits (mutexes: 0); 0 where the kernel
 * does not note it. 194a9b9e843b (6.16; needs CONFIG_DETECT_HUNG_TASK_BLOCKER); 3cf67d61ff98, for
 * mutexes only (6.15).
 */
static __always_inline u64 blocker_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->blocker))
		return READ(task, blocker);
	if (bpf_core_field_exists(task->blocker_mutex))
		return number_of(READ(task, blocker_mutex));
	return 0;
}

/* Locks of files have a core of their own since 6.9 (4ca52f539865). */
static __always_inline u32 lock_pid(struct file_lock *lock)
{
	if (bpf_core_field_exists(lock->c))
		return READ(lock, c.flc_pid);
	return READ(lock, fl_pid);
}

static __always_inline u32 lock_type(struct file_lock *lock)
{
	if (bpf_core_field_exists(lock->c))
		return READ(lock, c.flc_type);
	return READ(lock, fl_type);
}

static __always_inline struct file *lock_file(struct file_lock *lock)
{
	if (bpf_core_field_exists(lock->c))
		return READ(lock, c.flc_file);
	return READ(lock, fl_file);
}

/* The process that holds the lock which a request waits for; 0 if it is not known. */
static __always_inline u32 blocking_pid(struct file_lock *lock)
{
	if (bpf_core_field_exists(lock->c)) {
		struct file_lock_core *by = READ(lock, c.flc_blocker);

		return by ? READ(by, flc_pid) : 0;
	} else {
		struct file_lock *by = READ(lock, fl_blocker);

		return by ? READ(by, fl_pid) : 0;
	}
}

/* The lock whose link in its file's list is at this address. */
static __always_inline struct file_lock *lock_of_link(u64 link)
{
	struct file_lock *lock = NULL;

	if (bpf_core_field_exists(lock->c))
		return (struct file_lock *)(link -
					    bpf_core_field_offset(struct file_lock, c.flc_list));
	return (struct file_lock *)(link - bpf_core_field_offset(struct file_lock, fl_list));
}

#endif

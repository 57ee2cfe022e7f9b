/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Who holds the kernel lock that a thread sleeps for, while it holds it: the kernel notes the lock
 * in the sleeper, and its owner in the lock. Kernels without the note (see
 * compat_locks.bpf.h) leave only who wakes the sleeper.
 *
 * What does not belong here: locks of files (see file_locks.bpf.h).
 */
#ifndef IOWHY_LOCK_HOLDERS_H
#define IOWHY_LOCK_HOLDERS_H

#include "compat_locks.bpf.h"

#define OWNER_FLAGS  7ULL /* the low bits of an owner are flags, of mutexes and of semaphores */
#define READERS_HOLD 1ULL /* RWSEM_READER_OWNED: the last of them may have released it */
#define LOCK_KINDS   3ULL

enum lock_kind {
	LOCK_MUTEX,	/* BLOCKER_TYPE_MUTEX */
	LOCK_SEMAPHORE, /* BLOCKER_TYPE_SEM */
	LOCK_FOR_READ,	/* BLOCKER_TYPE_RWSEM_READER */
	LOCK_FOR_WRITE, /* BLOCKER_TYPE_RWSEM_WRITER */
};

static __always_inline u32 thread_number(u64 task)
{
	return task ? READ((struct task_struct *)task, pid) : 0;
}

static __always_inline u32 mutex_holder(u64 lock)
{
	struct mutex *mutex = (struct mutex *)lock;
	u64 owner;

	/* Kernels for real-time work have other locks. */
	if (!bpf_core_field_exists(mutex->owner.counter))
		return 0;
	owner = READ(mutex, owner.counter);
	return thread_number(owner & ~OWNER_FLAGS);
}

static __always_inline u32 semaphore_holder(u64 lock)
{
	struct rw_semaphore *semaphore = (struct rw_semaphore *)lock;
	u64 owner;

	if (!bpf_core_field_exists(semaphore->owner.counter))
		return 0;
	owner = READ(semaphore, owner.counter);
	return owner & READERS_HOLD ? 0 : thread_number(owner & ~OWNER_FLAGS);
}

/* The thread that holds the lock which the task sleeps for; 0 if that is not known. */
static __always_inline u32 lock_holder(struct task_struct *task)
{
	struct semaphore *counting = NULL;
	u64 blocker = blocker_of(task), lock = blocker & ~LOCK_KINDS;

	if (!lock)
		return 0;
	switch (blocker & LOCK_KINDS) {
	case LOCK_MUTEX:
		return mutex_holder(lock);
	case LOCK_SEMAPHORE:
		if (!bpf_core_field_exists(counting->last_holder))
			return 0;
		return thread_number(READ((struct semaphore *)lock, last_holder));
	default:
		return semaphore_holder(lock);
	}
}

#endif
